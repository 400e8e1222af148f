// Third part: drawing. All is on one canvas, from top to bottom: the overview, the axis of time, a row for each
// stream, and the memory in use. A second canvas above it has what follows the pointer, so that a moving pointer
// draws little. What one frame draws is bounded by the size of the window and not by the number of ops: ops too
// narrow to be seen alone share a column of two pixels, found by binary search.

function draw() {
  if (!width) return;
  const began = performance.now();
  drawn = 0;
  ctx.clearRect(0, 0, width, height);
  drawOverview();
  drawAxis();
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, TOP, width, memoryTop - TOP);
  ctx.clip();
  const labelled = drawRows();
  drawnArrows = [];
  if (showArrows || selected >= 0) drawArrows();
  if (showPath) drawPath();
  for (const [op, x, y, w] of labelled) drawText(op, x, y, w);
  if (selected >= 0) outline(ctx, selected, colours.hit, 2.5);
  ctx.restore();
  if (hasMemory) drawMemory();
  placeNames();
  drawOverlay();
  frames++;
  drawTime = performance.now() - began;
}

/// How many streams ran at a time, over the whole trace, where the hits are, and which part of it is shown.
function drawOverview() {
  if (!overview) {
    const columns = Math.max(1, Math.floor(width)), sums = new Float64Array(columns + 1), per = whole / columns;
    for (let i = 0; i < count; i++) {
      const first = Math.max(0, Math.floor(start[i] / per)), last = Math.min(columns - 1, Math.floor(end[i] / per));
      for (let c = first; c <= last; c++) {
        sums[c] += Math.max(0, Math.min(end[i], (c + 1) * per) - Math.max(start[i], c * per));
      }
    }
    overview = element('canvas', { width: columns, height: OVERVIEW });
    const pen = overview.getContext('2d');
    const most = Math.max(1, ...sums.map(s => s / per));
    pen.fillStyle = colours.worker;
    sums.forEach((s, c) => {
      const h = (OVERVIEW - 8) * s / per / most;
      pen.fillRect(c, OVERVIEW - 1 - h, 1, h);
    });
    pen.fillStyle = colours.accent;
    for (const x of new Set(hits.map(op => Math.round(start[op] / per)))) pen.fillRect(x - 0.5, OVERVIEW - 12, 1.5, 12);
  }
  ctx.fillStyle = colours.surface;
  ctx.fillRect(0, 0, width, OVERVIEW);
  ctx.drawImage(overview, 0, 0, width, OVERVIEW);
  const x0 = Math.max(0, view.begin / whole * width), x1 = Math.min(width, view.end / whole * width);
  ctx.fillStyle = colours.page;
  ctx.globalAlpha = 0.72;
  ctx.fillRect(0, 0, x0, OVERVIEW);
  ctx.fillRect(x1, 0, width - x1, OVERVIEW);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colours.accent;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(x0 + 0.75, 0.75, Math.max(2, x1 - x0 - 1.5), OVERVIEW - 1.5);
}

function drawAxis() {
  const target = (view.end - view.begin) / Math.max(1, width / 110), power = 10 ** Math.floor(Math.log10(target));
  const step = Math.max(1, power * [1, 2, 5, 10].find(f => f * power >= target));
  ctx.font = colours.font;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  for (let t = Math.ceil(view.begin / step) * step; t <= view.end; t += step) {
    const x = Math.round(X(t)) + 0.5;
    ctx.fillStyle = colours.line;
    ctx.fillRect(x, OVERVIEW, 1, memoryTop + memoryHeight - OVERVIEW);
    ctx.fillStyle = colours.muted;
    if (x < width - 50) ctx.fillText(pointText(t, step, Math.min(view.end, whole)), x + 5, OVERVIEW + AXIS / 2);
  }
}

// Rectangles of one frame by colour and strength, so that the colour is set once for each. Coverage of a column
// and what the search left out both make a box weaker.
const STRENGTHS = [0.16, 0.45, 0.7, 1];
const buckets = Array.from({ length: HUES.length * STRENGTHS.length }, () => []);

function drawRows() {
  const boxes = [], waits = [], starved = [];
  for (let r = 0; r < rows.length; r++) {
    const y = rowY(r);
    if (y > memoryTop) break;
    if (y + rowHeight < TOP) continue;
    if (r % 2 === 0) {
      ctx.fillStyle = colours.band;
      ctx.globalAlpha = 0.6;
      ctx.fillRect(0, y, width, rowHeight);
      ctx.globalAlpha = 1;
    }
    ctx.fillStyle = colours.line;
    ctx.fillRect(0, y, width, 1);
    collectRow(rows[r], y + boxInset(), boxes, waits, starved);
  }
  const h = rowHeight - 2 * boxInset(), thin = Math.max(6, Math.round(h * 0.42)), dip = Math.round((h - thin) / 2);
  ctx.fillStyle = colours.worker;
  ctx.globalAlpha = 0.28;
  for (const [x, y, w] of starved) ctx.fillRect(x, y + dip, w, thin);
  ctx.globalAlpha = 1;
  colours.hatch.setTransform(new DOMMatrix([0.5, 0, 0, 0.5, X(0) % 6, 0]));
  for (const [style, strength] of [[colours.wait, 0.09], [colours.hatch, 0.5]]) {
    ctx.fillStyle = style;
    ctx.globalAlpha = strength;
    for (const [x, y, w] of waits) ctx.fillRect(x, y + dip, w, thin);
  }
  ctx.globalAlpha = 1;
  buckets.forEach((bucket, b) => {
    if (!bucket.length) return;
    ctx.fillStyle = colours.box[Math.floor(b / STRENGTHS.length)];
    ctx.globalAlpha = STRENGTHS[b % STRENGTHS.length];
    for (let i = 0; i < bucket.length; i += 3) {
      const w = bucket[i + 2];
      if (w >= 8) {
        ctx.beginPath();
        ctx.roundRect(bucket[i], bucket[i + 1], w, h, 3);
        ctx.fill();
      } else {
        ctx.fillRect(bucket[i], bucket[i + 1], w, h);
      }
    }
    drawn += bucket.length / 3;
    bucket.length = 0;
  });
  ctx.globalAlpha = 1;
  drawn += waits.length + starved.length;
  return boxes;
}
const boxInset = () => rowHeight >= 40 ? 7 : 4;

function collectRow(row, y, boxes, waits, starved) {
  const { ops, busy } = row, n = ops.length;
  let i = firstWhere(0, n, k => end[ops[k]] > view.begin), runKey = -1, run = null;
  for (; i < n; i++) {
    const op = ops[i], x0 = X(start[op]), x1 = X(end[op]);
    // Why the stream stood still before this op.
    const { front, able } = delayOf(op);
    segment(waits, X(front), X(able), y);
    segment(starved, X(able), x0, y);
    if (x0 > width) break;
    if (x1 - x0 >= NARROW) {
      const left = Math.max(x0, -8), w = Math.min(x1, width + 8) - left;
      put(op, isHit && !isHit[labelOf[op]] ? 0 : 3, left, y, w >= 4 ? w - 0.8 : w);
      if (w >= 22 || isFailed[op]) boxes.push([op, left, y, w]);
      run = null;
      continue;
    }
    // Too narrow to be seen alone: all that begin in the same column are one box.
    const column = Math.floor(x0 / COLUMN) * COLUMN, until = T(column + COLUMN);
    let next = firstWhere(i + 1, n, k => start[ops[k]] >= until);
    if (next - 1 > i && (end[ops[next - 1]] - start[ops[next - 1]]) * scale >= NARROW) next--;
    let longest = op;
    for (let k = i, stride = Math.max(1, (next - i) >> 3); k < next; k += stride) {
      if (end[ops[k]] - start[ops[k]] > end[longest] - start[longest]) longest = ops[k];
    }
    const found = isHit ? row.hits[next] - row.hits[i] : 0;
    if (found) longest = ops[firstWhere(i, next, k => row.hits[k + 1] > row.hits[i])];
    const cover = (busy[next] - busy[i]) * scale / COLUMN, share = cover > 0.66 ? 3 : cover > 0.3 ? 2 : 1;
    const strength = !isHit ? share : found ? 3 : 0;
    const key = hueOfLabel[labelOf[longest]] * STRENGTHS.length + strength;
    if (run && key === runKey && run[run.length - 3] + run[run.length - 1] === column) {
      run[run.length - 1] += COLUMN;
    } else {
      run = put(longest, strength, column, y, COLUMN);
      runKey = key;
    }
    i = next - 1;
  }
}

function put(op, strength, x, y, w) {
  const bucket = buckets[hueOfLabel[labelOf[op]] * STRENGTHS.length + strength];
  bucket.push(x, y, w);
  return bucket;
}
function segment(list, x0, x1, y) {
  if (x1 - x0 < COLUMN || x1 < 0 || x0 > width) return;
  x0 = Math.max(x0, 0);
  list.push([x0, y, Math.min(x1, width) - x0]);
}

const textWidths = new Map();
function textWidth(text) {
  let size = textWidths.get(text);
  if (size === undefined) textWidths.set(text, size = ctx.measureText(text).width);
  return size;
}
/// The label in one line, in two, its first word, or as much of that as fits.
function drawText(op, x, y, w) {
  const h = rowHeight - 2 * boxInset();
  if (isFailed[op]) {
    ctx.strokeStyle = colours.path;
    ctx.lineWidth = 1.5;
    ctx.setLineDash(isFailed[op] === 2 ? [3, 3] : []);
    ctx.beginPath();
    ctx.moveTo(x + 1, y + h - 1);
    ctx.lineTo(x + w - 1, y + 1);
    ctx.stroke();
    ctx.setLineDash([]);
  }
  const left = Math.max(x, 0) + 4, room = Math.min(x + w, width) - left - 3;
  if (room < 14 || (isHit && !isHit[labelOf[op]])) return;
  let lines = [label(op).slice(0, 200)];
  if (textWidth(lines[0]) > room) {
    const [, first, rest] = /^(\S+)\s*([^]*)$/.exec(lines[0]) || [0, lines[0], ''];
    lines = h >= 34 && rest && Math.max(textWidth(first), textWidth(rest)) <= room ? [first, rest] : [first];
    if (textWidth(first) > room) {
      const letters = [...first], fitting = Math.floor(letters.length * room / textWidth(first));
      if (fitting < 4) return;
      lines = [letters.slice(0, fitting).join('')];
    }
  }
  ctx.fillStyle = colours.ink;
  lines.forEach((line, i) => ctx.fillText(line, left, y + h / 2 + 0.5 + 14 * (i - (lines.length - 1) / 2)));
  drawn++;
}

function boxOf(op) {
  const x = X(start[op]), y = rowY(rowOf[streamOf[op]]) + boxInset();
  return { x, y, w: Math.max(2, X(end[op]) - x), h: rowHeight - 2 * boxInset() };
}
function outline(pen, op, colour, thickness, strength = 1) {
  const { x, y, w, h } = boxOf(op), left = Math.max(x, -10), right = Math.min(x + w, width + 10);
  if (right < left) return;
  pen.strokeStyle = colour;
  pen.lineWidth = thickness;
  pen.beginPath();
  pen.roundRect(left, y, right - left, h, w >= 8 ? 3 : 0);
  pen.globalAlpha = strength;
  pen.stroke();
  pen.globalAlpha = 1;
}

/// The arrows in view: all of them if they are few, else those that cost the most; and those of the selected op.
function drawArrows() {
  const chosen = new Set();
  let visible = 0;
  if (showArrows) {
    const some = [];
    for (const w of waitsByCost) {
      const a = end[awaited[w]], b = start[waiter[w]];
      if (b < view.begin || a > view.end) continue;
      const y0 = middle(awaited[w]), y1 = middle(waiter[w]);
      if (Math.max(y0, y1) < TOP || Math.min(y0, y1) > memoryTop) continue;
      if (visible++ < MOST_ARROWS) some.push(w);
    }
    for (const w of visible > MOST_ARROWS ? some.slice(0, FEW_ARROWS) : some) chosen.add(w);
  }
  for (const w of chosen) {
    const [strength, thickness] = data.waits.cost[w] > 0 ? [0.9, 1.4] : [0.3, 1];
    if (!own.has(w)) drawArrow(ctx, w, own.size ? strength * 0.35 : strength, thickness);
  }
  for (const w of own) drawArrow(ctx, w, 1, 2.2);
  legendNote(visible > MOST_ARROWS ? `the ${FEW_ARROWS} longest of ${number(visible)} waits in view` : '');
}

const clampX = x => Math.min(Math.max(x, -3000), width + 3000);
function curveOf(w) {
  const x0 = clampX(X(end[awaited[w]])), y0 = middle(awaited[w]);
  const x1 = clampX(X(start[waiter[w]])), y1 = middle(waiter[w]);
  const bend = Math.min(Math.max((x1 - x0) / 2, 10), 70);
  return [x0, y0, x0 + bend, y0, x1 - bend, y1, x1, y1];
}
function drawArrow(pen, w, strength, thickness) {
  const c = curveOf(w), [, , , , , , x, y] = c;
  pen.globalAlpha = strength;
  pen.strokeStyle = pen.fillStyle = colours.hazard[data.waits.why[w]];
  pen.lineWidth = thickness;
  pen.beginPath();
  pen.moveTo(c[0], c[1]);
  pen.bezierCurveTo(c[2], c[3], c[4], c[5], x - 3, y);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x - 6 - thickness, y - 3 - thickness / 2);
  pen.lineTo(x - 6 - thickness, y + 3 + thickness / 2);
  pen.fill();
  pen.globalAlpha = 1;
  if (pen === ctx) {
    drawn++;
    drawnArrows.push([w, c]);
  }
}
function pointOn(c, s) {
  const r = 1 - s, a = r * r * r, b = 3 * r * r * s, d = 3 * r * s * s, e = s * s * s;
  return [a * c[0] + b * c[2] + d * c[4] + e * c[6], a * c[1] + b * c[3] + d * c[5] + e * c[7]];
}

/// The critical path as one line: solid where an op ran, dashed where it was waiting for a worker, and dashed
/// above the first row where the host had not submitted it.
function drawPath() {
  const n = path.op.length, first = firstWhere(0, n, i => path.end[i] >= view.begin);
  const solid = new Path2D(), dashed = new Path2D();
  let lastX = -1e9, lastY = 0, has = false;
  for (let i = Math.max(0, first - 1); i < n && path.begin[i] <= view.end; i++) {
    const op = path.op[i];
    if (op < 0) continue;
    const x0 = clampX(X(path.begin[i])), x1 = clampX(X(path.end[i]));
    const y = path.kind[i] === STEP_HOST ? TOP + 2 : middle(op);
    if (x1 - lastX < 0.7 && i + 1 < n) continue;  // too little to be seen
    if (has && y !== lastY) {
      solid.moveTo(x0, lastY);
      solid.lineTo(x0, y);
    }
    if (path.kind[i] === STEP_OP && x1 - x0 >= 6) {
      outline(ctx, op, colours.path, 2, isHit ? 0.45 : 1);
    } else {
      const line = path.kind[i] === STEP_OP || x1 - x0 < 6 ? solid : dashed;
      line.moveTo(has && y === lastY ? Math.min(lastX, x0) : x0, y);
      line.lineTo(x1, y);
    }
    lastX = x1;
    lastY = y;
    has = true;
    drawn++;
  }
  ctx.strokeStyle = colours.path;
  ctx.globalAlpha = isHit ? 0.45 : 1;
  ctx.lineWidth = drawn > 2000 ? 1.5 : 2.5;
  ctx.stroke(solid);
  ctx.setLineDash([5, 4]);
  ctx.stroke(dashed);
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

function drawMemory() {
  const floor = memoryTop + memoryHeight - 4, full = memoryHeight - 22;
  const Y = bytes => floor - full * bytes / Math.max(1, memory.peak);
  ctx.fillStyle = colours.page;
  ctx.fillRect(0, memoryTop, width, height - memoryTop);
  ctx.fillStyle = colours.strong;
  ctx.fillRect(0, memoryTop, width, 1);
  ctx.beginPath();
  // In each column of pixels the most that was in use in it.
  const n = memory.at.length, until = Math.min(width + 2, X(whole));
  let i = Math.max(0, firstWhere(0, n, k => memory.at[k] > view.begin) - 1), x = Math.max(-2, X(0));
  ctx.moveTo(x, floor);
  ctx.lineTo(x, Y(memory.bytes[i]));
  while (i + 1 < n && X(memory.at[i + 1]) < until) {
    const column = Math.max(0, X(memory.at[i + 1])), next = firstWhere(i + 2, n, k => X(memory.at[k]) >= column + 1);
    let most = memory.bytes[i + 1];
    const stride = Math.max(1, (next - i) >> 4);
    for (let k = i + 2; k < next; k += stride) most = Math.max(most, memory.bytes[k]);
    ctx.lineTo(column, Y(memory.bytes[i]));
    ctx.lineTo(column, Y(most));
    if (next - i > 2) ctx.lineTo(column + 0.5, Y(memory.bytes[next - 1]));
    i = next - 1;
    drawn++;
  }
  ctx.lineTo(until, Y(memory.bytes[i]));
  ctx.lineTo(until, floor);
  ctx.fillStyle = colours['memory-fill'];
  ctx.fill();
  ctx.strokeStyle = colours.memory;
  ctx.lineWidth = 1.5;
  ctx.stroke();
}
const memoryAt = t => memory.bytes[Math.max(0, firstWhere(0, memory.at.length, k => memory.at[k] > t) - 1)];

/// What follows the pointer: the hovered op or arrow, a line at its time, and the memory in use then.
function drawOverlay() {
  top2d.clearRect(0, 0, width, height);
  if (!pointer || pointer.y < OVERVIEW) return;
  top2d.fillStyle = colours.muted;
  top2d.globalAlpha = 0.55;
  top2d.fillRect(Math.round(pointer.x), OVERVIEW, 1, memoryTop + memoryHeight - OVERVIEW);
  top2d.globalAlpha = 1;
  chip(pointText(T(pointer.x), 1 / scale), pointer.x, OVERVIEW + AXIS / 2);
  if (hasMemory) chip(byteText(memoryAt(T(pointer.x))), pointer.x, memoryTop + 12);
  top2d.save();
  top2d.beginPath();
  top2d.rect(0, TOP, width, memoryTop - TOP);
  top2d.clip();
  if (hovered?.op >= 0) outline(top2d, hovered.op, colours.hit, 1.5);
  if (hovered?.wait >= 0) drawArrow(top2d, hovered.wait, 1, 3);
  top2d.restore();
}
function chip(text, x, y) {
  top2d.font = colours.font;
  const w = top2d.measureText(text).width + 12, left = Math.min(Math.max(0, x - w / 2), width - w);
  top2d.fillStyle = colours.text;
  top2d.beginPath();
  top2d.roundRect(left, y - 9, w, 18, 4);
  top2d.fill();
  top2d.fillStyle = colours.page;
  top2d.textBaseline = 'middle';
  top2d.fillText(text, left + 6, y + 0.5);
}
