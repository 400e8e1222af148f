// Second part: colours, and which part of the trace is shown.

// ---- colours: a hue for the first word of a label, the same in every trace unless two words want one hue ----

const HUES = [300, 210, 135, 45, 75, 340, 185, 275, 320, 105, 160, 250];  // no red: that is the critical path
const wordOfLabel = data.labels.map(text => (/[^\s([{<:,.]+/.exec(text) || [''])[0]);
const slotOfWord = new Map();
{
  const hash = word => [...word].reduce((h, c) => Math.imul(h ^ c.codePointAt(0), 16777619) >>> 0, 2166136261);
  const taken = new Set();
  for (const word of [...new Set(wordOfLabel)].sort()) {
    let slot = hash(word) % HUES.length;
    if (taken.size < HUES.length) while (taken.has(slot)) slot = (slot + 1) % HUES.length;
    taken.add(slot);
    slotOfWord.set(word, slot);
  }
}
const hueOfLabel = Uint8Array.from(wordOfLabel, word => slotOfWord.get(word));
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement), of = name => style.getPropertyValue('--' + name).trim();
  const names = ['page', 'surface', 'line', 'strong', 'text', 'muted', 'accent', 'band', 'path', 'wait', 'worker',
    'memory', 'memory-fill', 'hit', 'ink'];
  colours = Object.fromEntries(names.map(name => [name, of(name)]));
  colours.font = '11px ' + getComputedStyle(document.body).fontFamily;
  colours.hazard = HAZARDS.map(name => of(name.toLowerCase()));
  // Yellow and green are brown unless they are lighter than the others.
  colours.box = HUES.map(h => `oklch(${+of('box-light') + (h > 60 && h < 140 ? 0.05 : 0)} ${of('box-chroma')} ${h})`);
  colours.box.forEach((colour, i) => document.documentElement.style.setProperty('--box-' + i, colour));
  const tile = element('canvas', { width: 12, height: 12 }), pen = tile.getContext('2d');
  pen.strokeStyle = colours.wait;
  pen.lineWidth = 2.4;
  for (const x of [-12, 0, 12]) {
    pen.moveTo(x - 2, 14);
    pen.lineTo(x + 14, -2);
  }
  pen.stroke();
  colours.hatch = pen.createPattern(tile, 'repeat');
}

// ---- the view ----

const OVERVIEW = 44, AXIS = 24, TOP = OVERVIEW + AXIS, MOST_ARROWS = 400, FEW_ARROWS = 60;
const NARROW = 3, COLUMN = 2;  // pixels: ops narrower than the one are drawn as columns of the other
const stage = $('stage'), canvas = $('canvas'), overlay = $('overlay');
const ctx = canvas.getContext('2d'), top2d = overlay.getContext('2d');
const whole = Math.max(data.makespan, 1);
let view = { begin: 0, end: whole, scroll: 0 };
let goal = null;  // where the view is moving to
let width = 0, height = 0, rowHeight = 40, memoryTop = 0, memoryHeight = 0, scale = 1;
let overview = null;  // drawn once for a size, a theme and a search
let selected = -1, own = new Set();  // an op, and the waits with it at one end
let hovered = null, pointer = null;
let showPath = true, showArrows = true;
let hits = [], hit = -1, isHit = null;
let drawnArrows = [], drawn = 0, frames = 0, drawTime = 0, isScheduled = false;

const X = t => (t - view.begin) * scale;
const T = x => view.begin + x / scale;
const rowY = r => TOP + r * rowHeight - view.scroll;
const middle = op => rowY(rowOf[streamOf[op]]) + rowHeight / 2;

/// The first i of [from, to) for which is(i); the condition holds from some i on.
function firstWhere(from, to, is) {
  while (from < to) {
    const mid = (from + to) >> 1;
    if (is(mid)) to = mid; else from = mid + 1;
  }
  return from;
}

function layout() {
  if (width === stage.clientWidth && height === stage.clientHeight) return;
  width = stage.clientWidth;
  height = stage.clientHeight;
  const ratio = devicePixelRatio || 1;
  for (const c of [canvas, overlay]) {
    c.width = Math.max(1, Math.round(width * ratio));
    c.height = Math.max(1, Math.round(height * ratio));
    c.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  const room = height - TOP;
  memoryHeight = hasMemory ? Math.max(40, Math.min(130, room * 0.24)) : 0;
  rowHeight = Math.max(26, Math.min(76, Math.floor((room - memoryHeight) / Math.max(1, rows.length))));
  memoryTop = Math.min(height - memoryHeight, TOP + rows.length * rowHeight);
  if (hasMemory) memoryHeight = Math.min(height - memoryTop, 240);
  overview = null;
  const aim = goal;
  setView(view.begin, view.end, view.scroll);
  goal = aim;
}

/// The view that is meant, kept within the trace and a small margin.
function within({ begin, end: finish, scroll }) {
  const margin = whole * 0.02, span = Math.min(Math.max(finish - begin, Math.min(20, whole)), whole + 2 * margin);
  const first = Math.min(Math.max(begin, -margin), whole + margin - span);
  const most = Math.max(0, rows.length * rowHeight - (memoryTop - TOP));
  return { begin: first, end: first + span, scroll: Math.min(Math.max(scroll, 0), most) };
}
function setView(begin, finish, scroll = view.scroll) {
  goal = null;
  view = within({ begin, end: finish, scroll });
  scale = width / (view.end - view.begin);
  schedule();
}
/// The same, in a few frames, so that the eye can follow.
function moveTo(begin, finish, scroll = view.scroll) {
  if (matchMedia('(prefers-reduced-motion: reduce)').matches) return setView(begin, finish, scroll);
  goal = within({ begin, end: finish, scroll });
  schedule();
}
function stepToGoal() {
  const to = goal, part = (from, aim) => from + (aim - from) * 0.3;
  const isThere = Math.abs(to.begin - view.begin) + Math.abs(to.end - view.end) < (to.end - to.begin) * 0.002 &&
    Math.abs(to.scroll - view.scroll) < 1;
  if (isThere) return setView(to.begin, to.end, to.scroll);
  setView(part(view.begin, to.begin), part(view.end, to.end), part(view.scroll, to.scroll));
  goal = to;
}
const moveBy = (part, rowPart = 0) => {
  const from = goal || view, span = from.end - from.begin;
  moveTo(from.begin + part * span, from.end + part * span, from.scroll + rowPart * rowHeight);
};
function zoom(factor, at = null) {
  const from = goal || view, centre = at ?? (from.begin + from.end) / 2;
  const to = [centre - (centre - from.begin) * factor, centre + (from.end - centre) * factor];
  if (at === null) moveTo(...to); else setView(...to);
}
const fit = () => moveTo(-whole * 0.01, whole * 1.01, 0);

function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    if (goal) stepToGoal();
    isScheduled = false;
    draw();
    if (goal) schedule();
  });
}
