/**
 * Steps, phases, spans and kernels as lanes of intervals, out of the marks between the blocks' events.
 *
 * A lane's intervals are in order and do not overlap, so that what a view shows is found by bisection. Nested spans get
 * a lane for each depth. A trace may be cut off anywhere: what was not closed ends where the run does.
 *
 * @typedef {Object} Lane
 * @property {string} name   "step", "phase", "span 1", "kernels 7"
 * @property {"step" | "phase" | "span" | "kernel"} kind
 * @property {Float64Array} begin   event; of kernels, nanoseconds
 * @property {Float64Array} end     the first event after it; of kernels, nanoseconds
 * @property {Uint32Array} text     a step's number; position in the phases; position in the texts
 * @property {Uint32Array} [label]   of kernels: row of the labels, 0: launched by no known op
 */

const STEP_BEGIN = 0,
    STEP_END = 1,
    PHASE = 2,
    SPAN_BEGIN = 3,
    SPAN_END = 4,
    OOM = 5;

/** A lane while it grows: half a million spans are no rarity, so its arrays are typed from the start. */
class GrowingLane {
    constructor(name, kind) {
        Object.assign(this, { name, kind, count: 0, room: 64 });
        this.columns = { begin: new Float64Array(64), end: new Float64Array(64), text: new Uint32Array(64) };
        if (kind === "kernel") this.columns.label = new Uint32Array(64);
    }

    push(begin, end, text, label) {
        if (this.count === this.room) this.grow();
        const { columns, count } = this;
        columns.begin[count] = begin;
        columns.end[count] = end;
        columns.text[count] = text;
        if (columns.label) columns.label[count] = label;
        this.count++;
    }

    grow() {
        this.room *= 2;
        for (const [name, column] of Object.entries(this.columns)) {
            this.columns[name] = new column.constructor(this.room);
            this.columns[name].set(column);
        }
    }

    /** @returns {Lane} */
    finish() {
        const columns = Object.entries(this.columns).map(([name, column]) => [name, column.slice(0, this.count)]);
        return { name: this.name, kind: this.kind, ...Object.fromEntries(columns) };
    }
}

function stepLane(marks, eventCount) {
    const lane = new GrowingLane("step", "step");
    let open = null;
    for (let i = 0; i < marks.event.length; i++) {
        const event = marks.event[i];
        if (marks.kind[i] === STEP_BEGIN) {
            if (open) lane.push(open.event, event, open.number);
            open = { event, number: marks.value[i] };
        } else if (marks.kind[i] === STEP_END && open) {
            lane.push(open.event, event + 1, open.number);
            open = null;
        }
    }
    if (open) lane.push(open.event, eventCount, open.number);
    return lane.finish();
}

/** A phase lasts until the next one, or until its step begins or ends. */
function phaseLane(marks, eventCount) {
    const lane = new GrowingLane("phase", "phase");
    let open = null;
    const end = (event) => {
        if (open && event > open.event) lane.push(open.event, event, open.phase);
        open = null;
    };
    for (let i = 0; i < marks.event.length; i++) {
        const event = marks.event[i];
        const kind = marks.kind[i];
        if (kind === PHASE) {
            end(event);
            open = { event, phase: marks.value[i] };
        } else if (kind === STEP_BEGIN) end(event);
        else if (kind === STEP_END) end(event + 1);
    }
    end(eventCount);
    return lane.finish();
}

/** Spans that are open, as they are nested: what closes one closes those in it. */
class OpenSpans {
    constructor() {
        Object.assign(this, { lanes: [], begins: [], texts: [] });
    }

    open(event, text) {
        this.begins.push(event);
        this.texts.push(text);
    }

    closeInnermost(end) {
        const depth = this.begins.length - 1;
        if (depth === this.lanes.length) this.lanes.push(null);
        this.lanes[depth] ??= new GrowingLane(`span ${depth + 1}`, "span");
        this.lanes[depth].push(this.begins.pop(), end, this.texts.pop());
    }

    close(end, text) {
        const depth = this.texts.lastIndexOf(text);
        while (depth >= 0 && this.texts.length > depth) this.closeInnermost(end);
    }
}

function spanLanes(marks, eventCount) {
    const open = new OpenSpans();
    for (let i = 0; i < marks.event.length; i++) {
        if (marks.kind[i] === SPAN_BEGIN) open.open(marks.event[i], marks.span[i]);
        else if (marks.kind[i] === SPAN_END) open.close(marks.event[i] + 1, marks.span[i]);
    }
    while (open.texts.length > 0) open.closeInnermost(eventCount);
    return open.lanes.map((lane) => lane.finish());
}

/** One lane a stream; of kernels that overlap within one, the later begins where the earlier ends. */
function kernelLanes(kernels, unitNs) {
    const lanes = new Map();
    const ends = new Map();
    for (let i = 0; i < kernels.start.length; i++) {
        const stream = kernels.stream[i];
        if (!lanes.has(stream)) lanes.set(stream, new GrowingLane(`kernels ${stream}`, "kernel"));
        const begin = Math.max(kernels.start[i] * unitNs, ends.get(stream) ?? 0);
        const end = Math.max(begin, (kernels.start[i] + kernels.duration[i]) * unitNs);
        lanes.get(stream).push(begin, end, kernels.name[i], kernels.label[i]);
        ends.set(stream, end);
    }
    return [...lanes.values()].map((lane) => lane.finish());
}

function outOfMemory(marks) {
    const found = [];
    for (let i = 0; i < marks.event.length; i++)
        if (marks.kind[i] === OOM)
            found.push({ event: marks.event[i], bytes: marks.value[i], span: marks.span[i], label: marks.label[i] });
    return found;
}

/**
 * @returns {{steps: Lane, phases: Lane, spans: Lane[], kernels: Lane[], ooms: Object[]}}
 */
export function makeLanes(tables, eventCount, unitNs) {
    const marks = tables.marks;
    return {
        steps: stepLane(marks, eventCount),
        phases: phaseLane(marks, eventCount),
        spans: spanLanes(marks, eventCount),
        kernels: tables.kernels ? kernelLanes(tables.kernels, unitNs) : [],
        ooms: outOfMemory(marks),
    };
}

/** The position of the last value that is <= x in ascending values; -1: none. */
export function lastAtMost(values, x, count = values.length) {
    let low = 0;
    let high = count;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (values[middle] <= x) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}

/** The interval of a lane that covers `at`; -1: none. */
export function intervalAt(lane, at) {
    const i = lastAtMost(lane.begin, at);
    return i >= 0 && at < lane.end[i] ? i : -1;
}
