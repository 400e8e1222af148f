// Last part: what stands around the drawing, and what the reader does.

// ---- the names of the streams ----

function makeNames() {
  for (const row of rows) {
    const a = row.account, total = Math.max(1, a.busy + a.waiting + a.starved + a.idle);
    const share = (text, part) => `\n${text} ${timeText(part)} (${percent(part, total)})`;
    const piece = kind => element('i', { className: kind, style: `width:${100 * a[kind] / total}%` });
    row.name = element('div', {
      className: 'row',
      title: `${streamName(row)}: ${number(a.ops)} ops` + share('busy', a.busy) +
        share('waiting for other ops', a.waiting) + share('waiting for a worker', a.starved) +
        share('nothing submitted', a.idle),
    },
    element('div', { className: 'name' }, element('b', {}, streamName(row)), element('span', {}, percent(a.busy, total))),
    element('div', { className: 'bar' }, piece('busy'), piece('waiting'), piece('starved')));
    $('names').append(row.name);
  }
  $('names').append(element('div', { className: 'heading', style: `top:0;height:${TOP}px` }, 'Streams busy'));
  if (hasMemory) {
    const peak = element('span', {}, 'peak ', element('b', {}, byteText(memory.peak)));
    $('names').append(element('div', { className: 'heading', id: 'memoryName' }, 'Memory in use', peak));
  }
}
let namesAt = '';
function placeNames() {
  const at = `${view.scroll} ${rowHeight} ${memoryTop} ${height}`;
  if (at === namesAt) return;
  namesAt = at;
  rows.forEach((row, r) => { row.name.style = `top:${rowY(r)}px;height:${rowHeight}px`; });
  if (hasMemory) $('memoryName').style = `top:${memoryTop}px;height:${height - memoryTop}px`;
}

// ---- the panel ----

function select(op) {
  selected = op;
  own = new Set(op < 0 ? [] : [...waitsOf(op).filter(w => awaited[w] >= 0), ...waitersOf(op).slice(0, MOST_ARROWS)]);
  const panel = $('panel'), wasHidden = panel.hidden;
  panel.hidden = op < 0;
  if (op >= 0) panel.replaceChildren(...describe(op));
  if (wasHidden !== panel.hidden) layout();
  panel.scrollTop = 0;
  schedule();
}
function jump(op) {
  select(op);
  const length = Math.max(end[op] - start[op], 1), from = goal || view;
  let span = from.end - from.begin;
  if (length / span * width < 8 || length > span) span = length * 25;
  const centre = (start[op] + end[op]) / 2, room = memoryTop - TOP;
  moveTo(centre - span / 2, centre + span / 2, rowOf[streamOf[op]] * rowHeight - room / 2 + rowHeight / 2);
}

function waitButton(w, op, extra) {
  const colour = colours.hazard[data.waits.why[w]];
  const tag = element('span', { className: 'tag', style: `color:${colour}` }, HAZARDS[data.waits.why[w]]);
  return element('button', {
    className: 'go', style: `border-left-color:${colour}`, onclick: op >= 0 ? () => jump(op) : null,
  }, tag, sentence(w), extra ? element('small', {}, extra) : '');
}
const MOST_LISTED = 200;
function list(id, waits, make, none) {
  const items = waits.slice(0, MOST_LISTED).map(make), more = waits.length - MOST_LISTED;
  if (more > 0) items.push(element('p', {}, `and ${number(more)} more`));
  return element('div', { id }, ...(items.length ? items : [element('p', {}, none)]));
}

function describe(op) {
  const row = rows[rowOf[streamOf[op]]], at = placeInRow[op], { front, able } = delayOf(op);
  const waits = waitsOf(op), waiters = waitersOf(op);
  const step = (text, place) => element('button', {
    disabled: place < 0 || place >= row.ops.length, onclick: () => jump(row.ops[place]),
  }, text);
  const badge = text => element('span', { className: 'badge' }, text);
  const uses = data.ops.used.slice(firstUse[op], firstUse[op + 1]).map(u => {
    const bytes = data.uses.bytes[u], size = bytes > 0 && bytes < 2 ** 50 ? ` (${byteText(bytes)})` : '';
    return element('li', {}, `${ACCESS[data.uses.kind[u]]} '${data.names[data.uses.name[u]]}'${size}`);
  });
  const by = data.ops.submitter[op] ? ` by thread ${data.ops.submitter[op]}` : '';
  return [
    element('button', { className: 'close', title: 'Close (Esc)', ariaLabel: 'Close', onclick: () => select(-1) }, '×'),
    element('h2', {}, label(op)),
    element('p', {}, `${streamOfOp(op)}, op ${number(cursorOf[op])}`),
    isOnPath[op] ? badge('on the critical path') : '',
    isFailed[op] ? badge(isFailed[op] === 1 ? 'failed' : 'did not run: its data had failed') : '',
    pairs([
      ['ran for', timeText(end[op] - start[op])],
      ['submitted', when(op, submit[op]) + by],
      ['started', when(op, start[op])],
      ['was over', when(op, end[op])],
      ['waited for ops', timeText(able - front)],
      ['for a worker', timeText(Math.max(0, start[op] - able))],
      data.ops.worker[op] > 0 && ['ran on', `thread ${data.ops.worker[op]}`],
      data.ops.bytes[op] > 0 && ['touches', byteText(data.ops.bytes[op])],
    ]),
    element('div', { className: 'steps' }, step('‹ before it', at - 1), step('after it ›', at + 1)),
    element('h3', {}, 'What it uses'),
    uses.length ? element('ul', {}, ...uses) : element('p', {}, 'Nothing that braid was told of.'),
    element('h3', {}, 'It waited for ', element('span', {}, number(waits.length))),
    list('waitedFor', waits, w => waitButton(w, awaited[w]), 'No op of another stream.'),
    element('h3', {}, 'Who waited for it ', element('span', {}, number(waiters.length))),
    list('waitedBy', waiters, w => waitButton(w, waiter[w], `'${label(waiter[w])}'`), 'No other stream.'),
  ];
}

// ---- search ----

function search(text) {
  const wanted = text.trim().toLowerCase();
  hit = -1;
  hits = [];
  isHit = null;
  if (wanted) {
    isHit = Uint8Array.from(data.labels, l => l.toLowerCase().includes(wanted) ? 1 : 0);
    for (const row of rows) {
      row.hits = new Int32Array(row.ops.length + 1);  // before the i-th op
      row.ops.forEach((op, i) => {
        row.hits[i + 1] = row.hits[i] + isHit[labelOf[op]];
        if (isHit[labelOf[op]]) hits.push(op);
      });
    }
    hits.sort((a, b) => start[a] - start[b] || a - b);
  }
  overview = null;
  showHits();
  schedule();
}
function showHits() {
  const some = hit < 0 ? number(hits.length) : `${number(hit + 1)} of ${number(hits.length)}`;
  $('hits').textContent = !isHit ? '' : hits.length ? some : 'none';
}
function goToHit(by) {
  if (!hits.length) return;
  hit = hit < 0 ? (by > 0 ? 0 : hits.length - 1) : (hit + by + hits.length) % hits.length;
  showHits();
  jump(hits[hit]);
}

// ---- the pointer ----

function opAt(x, y) {
  const r = Math.floor((y - OVERVIEW - AXIS + view.scroll) / rowHeight);
  if (y < TOP || y >= memoryTop || r < 0 || r >= rows.length) return -1;
  const { ops } = rows[r], slack = 2 / scale, t = T(x);
  const i = firstWhere(0, ops.length, k => end[ops[k]] + slack >= t);
  return i < ops.length && start[ops[i]] - slack <= t ? ops[i] : -1;
}
function arrowAt(x, y) {
  let best = -1, least = 25;  // 5 pixels
  for (const [w, c] of drawnArrows) {
    if (x < Math.min(c[0], c[6]) - 12 || x > Math.max(c[0], c[6]) + 12 ||
        y < Math.min(c[1], c[7]) - 5 || y > Math.max(c[1], c[7]) + 5) continue;
    const pieces = Math.ceil((Math.abs(c[6] - c[0]) + Math.abs(c[7] - c[1])) / 6) + 4;
    for (let s = 0; s <= pieces; s++) {
      const [px, py] = pointOn(c, s / pieces), distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) { least = distance; best = w; }
    }
  }
  return best;
}
function hover(event) {
  const box = stage.getBoundingClientRect();
  pointer = { x: event.clientX - box.left, y: event.clientY - box.top };
  const inRows = pointer.y >= TOP && pointer.y < memoryTop;
  const wait = inRows ? arrowAt(pointer.x, pointer.y) : -1, op = wait < 0 && inRows ? opAt(pointer.x, pointer.y) : -1;
  hovered = { wait, op };
  stage.classList.toggle('over', op >= 0);
  const tip = $('tip');
  tip.hidden = wait < 0 && op < 0;
  if (wait >= 0) {
    tip.replaceChildren(element('b', {}, HAZARDS[data.waits.why[wait]]), sentence(wait));
    tip.firstChild.style.color = colours.hazard[data.waits.why[wait]];
  } else if (op >= 0) {
    tip.replaceChildren(
      element('b', {}, label(op)), element('span', {}, `${streamOfOp(op)}, op ${number(cursorOf[op])}`),
      `${timeText(end[op] - start[op])}, from ${when(op, start[op])} to ${when(op, end[op])}`);
  }
  if (!tip.hidden) {
    const below = event.clientY + 18, above = event.clientY - tip.offsetHeight - 10;
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6)) + 'px';
    tip.style.top = (below + tip.offsetHeight > innerHeight ? above : below) + 'px';
  }
  drawOverlay();
}
function unhover() {
  pointer = hovered = null;
  $('tip').hidden = true;
  drawOverlay();
}

let drag = null;
stage.addEventListener('pointerdown', event => {
  if (event.button !== 0) return;
  stage.setPointerCapture(event.pointerId);
  goal = null;
  const box = stage.getBoundingClientRect(), inOverview = event.clientY - box.top < OVERVIEW;
  drag = { x: event.clientX, y: event.clientY, from: view, inOverview, moved: inOverview };
  if (inOverview) centreAt(event.clientX - box.left);
});
const centreAt = x => {
  const half = (view.end - view.begin) / 2, t = x / width * whole;
  setView(t - half, t + half);
};
stage.addEventListener('pointermove', event => {
  if (drag) {
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (Math.abs(dx) + Math.abs(dy) > 3) drag.moved = true;
    if (drag.inOverview) {
      centreAt(event.clientX - stage.getBoundingClientRect().left);
    } else if (drag.moved) {
      stage.classList.add('dragging');
      setView(drag.from.begin - dx / scale, drag.from.end - dx / scale, drag.from.scroll - dy);
    }
    unhover();
  } else {
    hover(event);
  }
});
stage.addEventListener('pointerup', event => {
  if (drag && !drag.moved) {
    const box = stage.getBoundingClientRect();
    select(opAt(event.clientX - box.left, event.clientY - box.top));
  }
  drag = null;
  stage.classList.remove('dragging');
});
stage.addEventListener('pointercancel', () => { drag = null; });
stage.addEventListener('pointerleave', unhover);
stage.addEventListener('wheel', event => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : 1;
  const sideways = event.shiftKey && event.deltaY ? event.deltaY : event.deltaX;
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    setView(view.begin + sideways * unit / scale, view.end + sideways * unit / scale);
  } else {
    const speed = event.ctrlKey ? 0.01 : 0.0018;  // a pinch on a touchpad comes as small steps with ctrl
    zoom(Math.exp(event.deltaY * unit * speed), T(event.clientX - stage.getBoundingClientRect().left));
  }
  hover(event);
}, { passive: false });
$('names').addEventListener('wheel', event => {
  setView(view.begin, view.end, view.scroll + event.deltaY);
}, { passive: true });

// ---- keys and buttons ----

const toggle = (button, value) => { $(button).setAttribute('aria-pressed', value); schedule(); return value; };
const togglePath = () => { showPath = toggle('path', !showPath); };
const toggleArrows = () => { showArrows = toggle('arrows', !showArrows); legendNote(''); };
const wantsDark = matchMedia('(prefers-color-scheme: dark)');
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  readColours();
  overview = null;
  if (selected >= 0) $('panel').replaceChildren(...describe(selected));
  schedule();
}
const toggleTheme = () => setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
const keys = {
  ArrowLeft: () => moveBy(-0.2), a: () => moveBy(-0.2), ArrowRight: () => moveBy(0.2), d: () => moveBy(0.2),
  ArrowUp: () => moveBy(0, -1), ArrowDown: () => moveBy(0, 1),
  '+': () => zoom(0.7), '=': () => zoom(0.7), w: () => zoom(0.7), '-': () => zoom(1 / 0.7), s: () => zoom(1 / 0.7),
  f: fit, c: togglePath, v: toggleArrows, t: toggleTheme, n: () => goToHit(1), p: () => goToHit(-1),
  '/': () => $('search').focus(), Escape: () => select(-1),
};
addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.target === $('search')) {
    if (key === 'Enter') goToHit(event.shiftKey ? -1 : 1);
    if (key === 'Escape') { $('search').value = ''; search(''); $('search').blur(); }
    return;
  }
  if (!keys[key]) return;
  event.preventDefault();
  keys[key]();
});
$('search').addEventListener('input', event => search(event.target.value));
$('next').onclick = () => goToHit(1);
$('previous').onclick = () => goToHit(-1);
$('fit').onclick = fit;
$('path').onclick = togglePath;
$('arrows').onclick = toggleArrows;
$('theme').onclick = toggleTheme;
wantsDark.addEventListener('change', event => setTheme(event.matches ? 'dark' : 'light'));

// ---- header and legend ----

function legendNote(text) {
  const note = $('note');
  if (note && note.textContent !== text) note.textContent = text;
}
function fillHeader() {
  document.title = data.title + ' · braid timeline';
  $('title').textContent = $('title').title = data.title;
  const total = path.time[STEP_OP] + path.time[STEP_WORKER] + path.time[STEP_HOST];
  const share = (step, text) => `${percent(path.time[step], total)} ${text}`;
  const figures = [
    ['took', timeText(data.makespan)], ['ops', number(count)], ['streams', number(rows.length)],
    ['waits', number(waitCount)],
    ['critical path', [share(STEP_OP, 'ops'), share(STEP_WORKER, 'worker'), share(STEP_HOST, 'host')].join(' · ')],
  ];
  for (const [name, value] of count ? figures : []) {
    $('figures').append(element('div', {}, element('dt', {}, name), element('dd', {}, value)));
  }
  const lost = [];
  if (data.dropped) lost.push(`${number(data.dropped)} records were dropped because the buffer was full`);
  if (data.incomplete) lost.push(`${number(data.incomplete)} ops are left out because part of them was dropped`);
  $('notice').textContent = lost.length ? `This trace is not complete: ${lost.join(', and ')}.` : '';
  $('notice').hidden = !lost.length;
}
function fillLegend() {
  const time = new Map(), present = new Set(data.waits.why);
  for (let i = 0; i < count; i++) {
    const word = wordOfLabel[labelOf[i]];
    time.set(word, (time.get(word) || 0) + end[i] - start[i]);
  }
  const common = [...time.keys()].sort((a, b) => time.get(b) - time.get(a)).slice(0, 6);
  const swatch = (style, text, className = '') => element('span', {}, element('i', { className, style }), text);
  $('legend').append(
    ...common.map(word => swatch(`background:var(--box-${slotOfWord.get(word)})`, word.slice(0, 20) || '(no label)')),
    swatch('', 'waiting for ops', 'hatched'),
    swatch('background:var(--worker);opacity:.45', 'waiting for a worker'),
    swatch('border:2px solid var(--path)', 'critical path'),
    ...HAZARDS.filter((_, i) => present.has(i)).map(name => swatch(`color:var(--${name.toLowerCase()})`, name, 'arrow')),
    element('span', { id: 'note' }));
}

fillHeader();
fillLegend();
makeNames();
setTheme(wantsDark.matches ? 'dark' : 'light');
if (count) {
  new ResizeObserver(layout).observe(stage);
  layout();
  setView(-whole * 0.01, whole * 1.01);
} else {
  $('chart').replaceChildren(element('div', { id: 'empty' }, element('b', {}, 'No ops in this trace'),
    'The program submitted nothing while the trace was on, or all that was recorded was dropped.'));
  $('legend').hidden = $('help').hidden = true;
}

// For tests: what is shown, and where.
window.braidTimeline = {
  get lastDrawn() { return drawn; },
  get frames() { return frames; },
  get drawTime() { return drawTime; },
  get range() { return [view.begin, view.end]; },
  get isMoving() { return goal !== null; },
  get selected() { return selected; },
  get size() { return { width, height, rowHeight, rows: rows.length, memoryTop, memoryHeight }; },
  get arrows() { return drawnArrows.map(([wait]) => wait); },
  boxOf, sentence, label,
  arrowPoint: (w, s) => pointOn(curveOf(w), s),
};
