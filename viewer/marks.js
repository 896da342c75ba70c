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
 * @property {Uint32Array} [label]  of kernels
 */

const STEP_BEGIN = 0, STEP_END = 1, PHASE = 2, SPAN_BEGIN = 3, SPAN_END = 4, OOM = 5;

/** A lane while it grows. */
function openLane(name, kind) {
    return { name, kind, begin: [], end: [], text: [] };
}

function push(lane, begin, end, text) {
    lane.begin.push(begin);
    lane.end.push(end);
    lane.text.push(text);
}

function close(lane) {
    return { ...lane, begin: Float64Array.from(lane.begin), end: Float64Array.from(lane.end),
             text: Uint32Array.from(lane.text) };
}

function stepLane(marks, eventCount) {
    const lane = openLane("step", "step");
    let open = null;
    marks.event.forEach((event, i) => {
        if (marks.kind[i] === STEP_BEGIN) {
            if (open) push(lane, open.event, event, open.number);
            open = { event, number: marks.value[i] };
        } else if (marks.kind[i] === STEP_END && open) {
            push(lane, open.event, event + 1, open.number);
            open = null;
        }
    });
    if (open) push(lane, open.event, eventCount, open.number);
    return close(lane);
}

/** A phase lasts until the next one, or until its step begins or ends. */
function phaseLane(marks, eventCount) {
    const lane = openLane("phase", "phase");
    let open = null;
    const end = (event) => {
        if (open && event > open.event) push(lane, open.event, event, open.phase);
        open = null;
    };
    marks.event.forEach((event, i) => {
        const kind = marks.kind[i];
        if (kind === PHASE) {
            end(event);
            open = { event, phase: marks.value[i] };
        } else if (kind === STEP_BEGIN) end(event);
        else if (kind === STEP_END) end(event + 1);
    });
    end(eventCount);
    return close(lane);
}

function spanLanes(marks, eventCount) {
    const lanes = [];
    const open = [];
    const end = (event) => {
        const { begin, text } = open.pop();
        const depth = open.length;
        while (lanes.length <= depth) lanes.push(openLane(`span ${lanes.length + 1}`, "span"));
        push(lanes[depth], begin, event, text);
    };
    marks.event.forEach((event, i) => {
        if (marks.kind[i] === SPAN_BEGIN) open.push({ begin: event, text: marks.span[i] });
        else if (marks.kind[i] === SPAN_END && open.some((span) => span.text === marks.span[i]))
            while (open.length > 0) {
                const last = open.at(-1).text === marks.span[i];
                end(event + 1);
                if (last) break;
            }
    });
    while (open.length > 0) end(eventCount);
    return lanes.map(close);
}

/** One lane a stream; of kernels that overlap within one, the later is cut to what follows. */
function kernelLanes(kernels, unitNs) {
    const lanes = new Map();
    for (let i = 0; i < kernels.start.length; i++) {
        const stream = kernels.stream[i];
        if (!lanes.has(stream)) lanes.set(stream, { ...openLane(`kernels ${stream}`, "kernel"), label: [] });
        const lane = lanes.get(stream);
        const begin = Math.max(kernels.start[i] * unitNs, lane.end.at(-1) ?? 0);
        push(lane, begin, Math.max(begin, (kernels.start[i] + kernels.duration[i]) * unitNs), kernels.name[i]);
        lane.label.push(kernels.label[i]);
    }
    return [...lanes.values()].map((lane) => ({ ...close(lane), label: Uint32Array.from(lane.label) }));
}

function outOfMemory(marks) {
    const found = [];
    marks.event.forEach((event, i) => {
        if (marks.kind[i] === OOM) found.push({ event, bytes: marks.value[i], span: marks.span[i], label: marks.label[i] });
    });
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
