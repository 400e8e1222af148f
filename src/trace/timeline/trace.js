'use strict';
// The page of `braid timeline`, first part of four: the trace as columns, and the words for it. view.js says which
// part of it is shown, draw.js draws that, page.js is what the reader sees around the drawing and does with it.

const $ = id => document.getElementById(id);
const data = JSON.parse($('trace').textContent);

// ---- the trace ----

const HAZARDS = ['RAW', 'WAR', 'WAW', 'reuse', 'capacity', 'user'];
const ACCESS = ['reads', 'writes', 'reads and writes', 'accumulates into'];
const STEP_OP = 0, STEP_WORKER = 1, STEP_HOST = 2;

const count = data.ops.stream.length;
const waitCount = data.waits.why.length;
const streamOf = Int32Array.from(data.ops.stream), labelOf = Int32Array.from(data.ops.label);
const cursorOf = new Float64Array(count), submit = new Float64Array(count), ready = new Float64Array(count);
const start = new Float64Array(count), end = new Float64Array(count);
const firstWait = new Int32Array(count + 1), firstUse = new Int32Array(count + 1);
const waiter = new Int32Array(waitCount), awaited = new Int32Array(waitCount);
const isFailed = new Uint8Array(count), isOnPath = new Uint8Array(count);
const rowOf = [];  // of a stream
const rows = data.streams.map((account, r) => {
  rowOf[account.stream] = r;
  return { account, ops: [] };
});

{
  const cursors = [];
  let clock = 0;
  for (let i = 0; i < count; i++) {
    const s = streamOf[i];
    cursorOf[i] = cursors[s] = (cursors[s] || 0) + data.ops.cursor[i];
    submit[i] = clock += data.ops.submit[i];
    ready[i] = clock + data.ops.ready[i];
    start[i] = clock + data.ops.start[i];
    end[i] = start[i] + data.ops.length[i];
    firstUse[i + 1] = firstUse[i] + data.ops.uses[i];
    firstWait[i + 1] = firstWait[i] + data.ops.waits[i];
    for (let w = firstWait[i]; w < firstWait[i + 1]; w++) {
      waiter[w] = i;
      awaited[w] = data.waits.back[w] ? i - data.waits.back[w] : -1;
    }
    rows[rowOf[s]].ops.push(i);
  }
  for (const i of data.ops.failed) isFailed[i] = 1;
  for (const i of data.ops.skipped) isFailed[i] = 2;
}
const placeInRow = new Int32Array(count);
for (const row of rows) {
  row.ops = Int32Array.from(row.ops).sort((a, b) => start[a] - start[b] || a - b);
  row.busy = new Float64Array(row.ops.length + 1);  // of the ops before
  row.ops.forEach((op, i) => {
    placeInRow[op] = i;
    row.busy[i + 1] = row.busy[i] + end[op] - start[op];
  });
}
// Who waited for an op: waitersBy[firstWaiter[op]] to waitersBy[firstWaiter[op + 1]] are waits.
const firstWaiter = new Int32Array(count + 1), waitersBy = new Int32Array(waitCount);
{
  for (let w = 0; w < waitCount; w++) if (awaited[w] >= 0) firstWaiter[awaited[w] + 1]++;
  for (let i = 0; i < count; i++) firstWaiter[i + 1] += firstWaiter[i];
  const next = firstWaiter.slice();
  for (let w = 0; w < waitCount; w++) if (awaited[w] >= 0) waitersBy[next[awaited[w]]++] = w;
}
const waitsOf = op => Array.from({ length: firstWait[op + 1] - firstWait[op] }, (_, k) => firstWait[op] + k);
const waitersOf = op => Array.from(waitersBy.subarray(firstWaiter[op], firstWaiter[op + 1]))
  .sort((a, b) => data.waits.cost[b] - data.waits.cost[a]);
/// When the op was submitted and first of its stream, and when all that it had to come after was over.
function delayOf(op) {
  const place = placeInRow[op], row = rows[rowOf[streamOf[op]]];
  const front = Math.max(submit[op], place > 0 ? end[row.ops[place - 1]] : 0);
  return { front, able: Math.min(Math.max(ready[op], front), Math.max(start[op], front)) };
}
const waitsByCost = Int32Array.from({ length: waitCount }, (_, w) => w)
  .filter(w => awaited[w] >= 0).sort((a, b) => data.waits.cost[b] - data.waits.cost[a]);

const path = { kind: data.path.kind, op: data.path.op, begin: [], end: [], time: [0, 0, 0] };
{
  let clock = data.pathBegin;
  data.path.length.forEach((length, i) => {
    path.begin.push(clock);
    path.end.push(clock += length);
    path.time[path.kind[i]] += length;
    if (path.kind[i] === STEP_OP && path.op[i] >= 0) isOnPath[path.op[i]] = 1;
  });
}
const memory = { at: [0], bytes: [data.memoryBefore], peak: data.memoryBefore };
{
  let clock = 0, bytes = data.memoryBefore;
  data.memory.at.forEach((delta, i) => {
    memory.at.push(clock += delta);
    memory.bytes.push(bytes += data.memory.change[i]);
    memory.peak = Math.max(memory.peak, bytes);
  });
}
const hasMemory = memory.peak > 0;

// ---- words ----

const number = n => n.toLocaleString('en');
// Three digits, and the next unit from what would round to 1000 on.
function scaled(value, base, units) {
  let u = 0;
  for (; u + 1 < units.length && Math.abs(value) >= base - 0.5; u++) value /= base;
  const size = Math.abs(value);
  return value.toFixed(u === 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + ' ' + units[u];
}
const timeText = ns => scaled(ns, 1000, ['ns', 'µs', 'ms', 's']);
/// A point in time, with the digits that tell it from one that is `apart`, in the unit of one that is `like` it.
function pointText(ns, apart, like = ns) {
  const units = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];
  const [size, unit] = units.find(([least]) => least <= Math.abs(like)) || units[3];
  return (ns / size).toFixed(Math.min(Math.max(0, Math.ceil(Math.log10(size / Math.max(apart, 1)))), 9)) + ' ' + unit;
}
const byteText = bytes => scaled(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
const percent = (part, whole) => (whole > 0 ? Math.round(100 * part / whole) : 0) + ' %';
const when = (op, t) => pointText(t, (end[op] - start[op]) / 20);
const label = op => data.labels[labelOf[op]] || '(no label)';
const streamName = row => {
  const name = 'stream ' + row.account.name, runtime = data.runtimes.find(r => r.number === row.account.runtime);
  return data.runtimes.length > 1 && runtime ? `${runtime.backend} ${runtime.number}, ${name}` : name;
};
const streamOfOp = op => streamName(rows[rowOf[streamOf[op]]]);

/// The same words as `braid explain` has.
function sentence(w) {
  const stream = op => 'stream ' + rows[rowOf[streamOf[op]]].account.name, quoted = op => `'${data.labels[labelOf[op]]}'`;
  const on = awaited[w], reached = on + data.waits.reached[w], cost = data.waits.cost[w];
  const name = `'${data.names[data.waits.resource[w]]}'`;
  const reasons = [`it reads ${name} that it wrote`, `it writes ${name} that it read`, `it writes ${name} that it wrote`,
    `${name} got memory that it used`, 'the work in flight is limited', 'the program asked for it'];
  let text = stream(waiter[w]) + (cost > 0 ? ` waited ${timeText(cost)} for ` : ' came after ');
  text += on >= 0 ? `${quoted(on)} on ${stream(on)}` : data.elsewhere[w];
  text += ': ' + reasons[data.waits.why[w]];
  if (on >= 0 && end[reached] > end[on]) {
    text += ` (its event stands behind ${quoted(reached)}, ${timeText(end[reached] - end[on])} later)`;
  }
  return text;
}

function element(tag, properties, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}
const pairs = entries => element('dl', {}, ...entries.filter(Boolean).flatMap(
  ([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
