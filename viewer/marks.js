/**
 * Program phases, steps, phases, spans and kernels as lanes of intervals, made of the marks between the events of blocks.
 *
 * The intervals of a lane are in order and do not overlap, so those in view are found by bisection. Nested spans have a
 * lane for each depth. A trace may be cut off anywhere: intervals without an end last until the end of the run.
 *
 * @typedef {Object} Lane
 * @property {string} name   "program", "step", "phase", "span 1", "kernels 7"
 * @property {"program" | "step" | "phase" | "span" | "kernel"} kind
 * @property {Uint32Array | Float64Array} begin   event; for kernels, nanoseconds
 * @property {Uint32Array | Float64Array} end     the first event after it; for kernels, nanoseconds
 * @property {Uint32Array} text     number of a step; position in the phases; position in the texts
 * @property {Uint32Array} label   of kernels: row of the labels, 0: launched by no known op; of others empty
 *
 * @typedef {{event: number, kind: number, value: number, span: number, label: number}} Mark
 * @typedef {{event: number, bytes: number, span: number, label: number}} Refusal   of memory
 * @typedef {{program: Lane, steps: Lane, phases: Lane, spans: Lane[], kernels: Lane[], ooms: Refusal[]}} Lanes
 */

const STEP_BEGIN = 0,
    STEP_END = 1,
    PHASE = 2,
    SPAN_BEGIN = 3,
    SPAN_END = 4,
    OOM = 5;
/** The position of `init` in the phases. */
const INIT = 0;

const FIRST_ROOM = 256;

/**
 * Returns a larger or smaller array with the first `count` values of one.
 * @template {Uint32Array | Float64Array} Values
 * @param {Values} values
 * @param {number} count
 * @param {number} room
 */
function resized(values, count, room) {
    const next = /** @type {Values} */ (
        values instanceof Float64Array ? new Float64Array(room) : new Uint32Array(room)
    );
    next.set(values.subarray(0, count));
    return next;
}

/** A lane while it grows. Its arrays are typed from the start, since half a million spans are common. */
class GrowingLane {
    /**
     * @param {string} name
     * @param {Lane["kind"]} kind
     */
    constructor(name, kind) {
        this.name = name;
        this.kind = kind;
        this.count = 0;
        const Position = kind === "kernel" ? Float64Array : Uint32Array;
        /** @type {Lane["begin"]} */
        this.begin = new Position(FIRST_ROOM);
        /** @type {Lane["end"]} */
        this.end = new Position(FIRST_ROOM);
        this.text = new Uint32Array(FIRST_ROOM);
        this.label = new Uint32Array(kind === "kernel" ? FIRST_ROOM : 0);
    }

    /**
     * @param {number} begin
     * @param {number} end
     * @param {number} text
     * @returns {number} the position of the new interval in the lane
     */
    push(begin, end, text) {
        if (this.count === this.begin.length) this.resize(2 * this.count);
        this.begin[this.count] = begin;
        this.end[this.count] = end;
        this.text[this.count] = text;
        return this.count++;
    }

    /**
     * @param {number} begin
     * @param {number} end
     * @param {number} text
     * @param {number} label
     */
    pushKernel(begin, end, text, label) {
        const at = this.push(begin, end, text);
        this.label[at] = label;
    }

    /**
     * Gives the columns room for `room` intervals, and keeps the first `count`.
     * @param {number} room
     */
    resize(room) {
        this.begin = resized(this.begin, this.count, room);
        this.end = resized(this.end, this.count, room);
        this.text = resized(this.text, this.count, room);
        if (this.label.length > 0) this.label = resized(this.label, this.count, room);
    }

    /** @returns {Lane} */
    finish() {
        this.resize(this.count);
        const { name, kind, begin, end, text, label } = this;
        return { name, kind, begin, end, text, label };
    }
}

/**
 * Returns the marks that are not about spans. They are few, so searches in them are fast.
 * @param {TableColumns} marks
 */
function marksBesideSpans({ event, kind, value, span, label }) {
    const few = [];
    for (let i = 0; i < kind.length; i++)
        if (kind[i] !== SPAN_BEGIN && kind[i] !== SPAN_END)
            few.push({ event: event[i], kind: kind[i], value: value[i], span: span[i], label: label[i] });
    return few;
}

/**
 * Returns the phases of the program, such as load and train, which contain its steps; none if the program was not followed.
 * @param {TableColumns | undefined} phases
 * @param {number} eventCount
 */
function programLane(phases, eventCount) {
    const lane = new GrowingLane("program", "program");
    phases?.event.forEach((event, i) => lane.push(event, phases.event[i + 1] ?? eventCount, phases.name[i]));
    return lane.finish();
}

/**
 * @param {Mark[]} marks
 * @param {number} eventCount
 */
function stepLane(marks, eventCount) {
    const lane = new GrowingLane("step", "step");
    let open = null;
    for (const { event, kind, value } of marks) {
        if (kind === STEP_BEGIN) {
            if (open) lane.push(open.event, event, open.number);
            open = { event, number: value };
        } else if (kind === STEP_END && open) {
            lane.push(open.event, event + 1, open.number);
            open = null;
        }
    }
    if (open) lane.push(open.event, eventCount, open.number);
    return lane.finish();
}

/**
 * Returns the phases. A phase lasts until the next one, or until its step ends; the phase before all steps lasts until the
 * first one begins. PyTorch programs enter a step's first phase just before the step begins, which may be at the end of the
 * step before. Such a phase goes on in its step.
 * @param {Mark[]} marks
 * @param {number} eventCount
 */
function phaseLane(marks, eventCount) {
    const lane = new GrowingLane("phase", "phase");
    /** @type {?{event: number, phase: number}} */
    let open = null;
    /** @param {number} event */
    const end = (event) => {
        if (open && event > open.event) lane.push(open.event, event, open.phase);
        open = null;
    };
    for (const { event, kind, value } of marks) {
        if (kind === PHASE) {
            end(event);
            open = { event, phase: value };
        } else if (kind === STEP_BEGIN && open?.phase === INIT) end(event);
        else if (kind === STEP_END && open && open.event + 1 < event) end(event + 1);
    }
    end(eventCount);
    return lane.finish();
}

/** The open spans, which are nested: the end of one ends those inside it. */
class OpenSpans {
    constructor() {
        /** @type {GrowingLane[]} */
        this.lanes = []; // by depth
        /** @type {number[]} */
        this.begins = [];
        /** @type {number[]} */
        this.texts = [];
    }

    /**
     * @param {number} event
     * @param {number} text
     */
    open(event, text) {
        if (this.texts.length === this.lanes.length)
            this.lanes.push(new GrowingLane(`span ${this.lanes.length + 1}`, "span"));
        this.begins.push(event);
        this.texts.push(text);
    }

    /** @param {number} end */
    closeInnermost(end) {
        this.lanes[this.texts.length - 1].push(this.begins.pop() ?? 0, end, this.texts.pop() ?? 0);
    }

    /**
     * @param {number} end
     * @param {number} text
     */
    close(end, text) {
        const depth = this.texts.lastIndexOf(text); // mostly the innermost, where the search begins
        while (depth >= 0 && this.texts.length > depth) this.closeInnermost(end);
    }

    /** @param {number} end */
    closeAll(end) {
        while (this.texts.length > 0) this.closeInnermost(end);
    }
}

/**
 * @param {TableColumns} marks
 * @param {number} eventCount
 */
function spanLanes(marks, eventCount) {
    const open = new OpenSpans();
    const { event, kind, span } = marks;
    for (let i = 0; i < event.length; i++) {
        if (kind[i] === SPAN_BEGIN) open.open(event[i], span[i]);
        else if (kind[i] === SPAN_END) open.close(event[i] + 1, span[i]);
    }
    open.closeAll(eventCount);
    return open.lanes.map((lane) => lane.finish());
}

/**
 * Returns one lane for each stream. Where kernels of a stream overlap, the later one begins at the end of the earlier
 * one.
 * @param {TableColumns} kernels
 * @param {number} unitNs
 */
function kernelLanes(kernels, unitNs) {
    const lanes = new Map();
    const ends = new Map();
    for (let i = 0; i < kernels.start.length; i++) {
        const stream = kernels.stream[i];
        if (!lanes.has(stream)) lanes.set(stream, new GrowingLane(`kernels ${stream}`, "kernel"));
        const begin = Math.max(kernels.start[i] * unitNs, ends.get(stream) ?? 0);
        const end = Math.max(begin, (kernels.start[i] + kernels.duration[i]) * unitNs);
        lanes.get(stream).pushKernel(begin, end, kernels.name[i], kernels.label[i]);
        ends.set(stream, end);
    }
    return [...lanes.values()].map((lane) => lane.finish());
}

/**
 * @param {{marks: TableColumns, kernels?: TableColumns, program?: TableColumns}} tables   columns as in docs/page.md
 * @param {number} eventCount
 * @param {number} unitNs
 * @returns {Lanes}
 */
export function makeLanes({ marks, kernels, program }, eventCount, unitNs) {
    const few = marksBesideSpans(marks);
    return {
        program: programLane(program, eventCount),
        steps: stepLane(few, eventCount),
        phases: phaseLane(few, eventCount),
        spans: spanLanes(marks, eventCount),
        kernels: kernels ? kernelLanes(kernels, unitNs) : [],
        ooms: few
            .filter(({ kind }) => kind === OOM)
            .map(({ event, value, span, label }) => ({ event, bytes: value, span, label })),
    };
}

/**
 * Returns the lanes from the top row of bars to the last.
 * @param {Pick<Lanes, "program" | "steps" | "phases" | "spans" | "kernels">} lanes
 */
export function allLanes({ program, steps, phases, spans, kernels }) {
    return [program, steps, phases, ...spans, ...kernels];
}

/**
 * Returns the last element of a list that has any.
 * @template T
 * @param {{length: number, [at: number]: T}} list
 * @returns {T}
 */
export function lastOf(list) {
    return list[list.length - 1];
}

/**
 * Returns the position of the last value <= x in ascending values; -1 if there is none.
 * @param {ArrayLike<number>} values
 * @param {number} x
 * @param {number} [count]
 */
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

/**
 * Returns the interval of a lane that covers `at`; -1 if there is none.
 * @param {Lane} lane
 * @param {number} at
 */
export function intervalAt(lane, at) {
    const i = lastAtMost(lane.begin, at);
    return i >= 0 && at < lane.end[i] ? i : -1;
}
