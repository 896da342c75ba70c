/**
 * The horizontal axis: time, event number, or steps and phases aligned between runs.
 *
 * An axis maps events to x, and never backwards: xs[event + 1] >= xs[event]. The state after an event is drawn from the
 * event's x to the next one's. Two runs share one axis, with a map for each.
 *
 * @typedef {Object} Axis
 * @property {"time" | "event" | "phase"} kind
 * @property {number} length   x is in [0, length]
 * @property {Float64Array[]} xs   by run: x of each event, and of its end
 * @property {number} shortest   the narrowest view that is useful
 * @property {AxisPiece[]} [pieces]   of the phase axis
 *
 * @typedef {{x: number, end: number, text: string, name: string}} AxisPiece   name: of its phase alone
 *
 * @typedef {{key: string, class: string, first: number, step: number, name: string}} Piece   of a run, that is aligned with
 *   another's
 */
import { intervalAt, lastAtMost, lastOf } from "./marks.js";

/** @type {AxisKind[]} */
export const AXIS_KINDS = ["time", "event", "phase"];

/**
 * True if a run's times are those of the host, which computed nothing: of a dry run.
 * @param {RunInfo} info
 */
export function hasHostTime({ settings }) {
    return settings.some(([name, value]) => name === "recorded" && value === "dry");
}

/**
 * Returns the name of times of a run: those of a simulated device are estimates, except that a dry run has the host's.
 * @param {RunInfo} info
 */
export function clockName(info) {
    if (hasHostTime(info)) return "host time";
    return info.device.startsWith("sim") ? "estimated time" : "time";
}

/**
 * Returns the initial axis: phases for two runs, events for a run without duration and for a dry run, else time.
 * @param {Run[]} runs
 * @returns {AxisKind}
 */
export function firstAxisKind(runs) {
    if (runs.length > 1) return "phase";
    const [{ info, time }] = runs;
    return lastOf(time) > time[0] && !hasHostTime(info) ? "time" : "event";
}

/** Moments without an event: before the first of a run, and after its end, while the other run goes on. */
export const BEFORE_ALL = -1;
export const AFTER_ALL = -2;

/**
 * @param {Run[]} runs
 * @returns {Axis}
 */
function timeAxis(runs) {
    const xs = runs.map((run) => run.time);
    return { kind: "time", length: Math.max(1, ...xs.map((x) => lastOf(x))), xs, shortest: 20 };
}

/**
 * @param {Run[]} runs
 * @returns {Axis}
 */
function eventAxis(runs) {
    const xs = runs.map((run) => Float64Array.from({ length: run.eventCount + 1 }, (_, event) => event));
    return { kind: "event", length: Math.max(1, ...runs.map((run) => run.eventCount)), xs, shortest: 4 };
}

/**
 * Returns the beginnings of pieces in order: [event, step or -1, name]. Each phase begins one, and each step without
 * phases. The step of a phase is the one in which it ends, since it may begin before its step.
 * @param {Lanes} lanes
 * @param {string[]} names
 */
function pieceBegins({ steps, phases }, names) {
    /** @type {[number, number, string][]} */
    const begins = Array.from(phases.begin, (event, i) => {
        const step = intervalAt(steps, phases.end[i] - 1);
        return [event, step < 0 ? -1 : steps.text[step], names[phases.text[i]] ?? ""];
    });
    steps.begin.forEach((event, i) => {
        const last = lastAtMost(phases.begin, steps.end[i] - 1);
        if (last < 0 || phases.begin[last] < event) begins.push([event, steps.text[i], ""]);
    });
    return begins.sort((a, b) => a[0] - b[0]);
}

/**
 * Returns the pieces of a run that are aligned with another's: key, class, first event, step, name. Events between two
 * phases belong to the first of them. Events before all phases are a piece, too.
 * @param {Run} run
 * @param {string[]} names
 */
function piecesOf(run, names) {
    const pieces = [];
    const counts = new Map();
    let step = -1; // a phase outside of all steps counts as part of the step before it
    for (const [first, number, name] of pieceBegins(run.lanes, names)) {
        step = number < 0 ? step : number;
        const kind = `${step}/${name}`;
        const count = counts.get(kind) ?? 0;
        counts.set(kind, count + 1);
        pieces.push({ key: `${kind}/${count}`, class: `${name}/${count}`, first, step, name });
    }
    if (pieces.length === 0 || pieces[0].first > 0)
        pieces.unshift({ key: "before", class: "before", first: 0, step: -1, name: "" });
    return pieces;
}

/**
 * Merges the pieces of two runs, each in its own order. Pieces of the second run alone go after their predecessor.
 * @param {Piece[]} first
 * @param {Piece[]} second
 */
function mergePieces(first, second) {
    const places = new Map(first.map(({ key }, place) => [key, place]));
    /** @type {Piece[][]} */
    const after = Array.from({ length: first.length + 1 }, () => []); // by place + 1
    let place = -1;
    for (const piece of second) {
        const known = places.get(piece.key);
        place = known ?? place;
        if (known === undefined) after[place + 1].push(piece);
    }
    return [...after[0], ...first.flatMap((piece, i) => [piece, ...after[i + 1]])];
}

/**
 * Returns the name of a piece: "step 3, forward", "init", "step 3" for a step without phases.
 * @param {Piece} piece
 */
function pieceText({ step, name }) {
    return [step < 0 ? "" : `step ${step}`, name].filter((text) => text).join(", ");
}

/**
 * Returns the width of each class of pieces: the events of its longest piece, so that steps are aligned.
 * @param {Run[]} runs
 * @param {Piece[][]} all
 */
function widthsByClass(runs, all) {
    const widths = new Map();
    all.forEach((pieces, number) => {
        pieces.forEach((piece, i) => {
            const events = (pieces[i + 1]?.first ?? runs[number].eventCount) - piece.first;
            widths.set(piece.class, Math.max(1, events, widths.get(piece.class) ?? 0));
        });
    });
    return widths;
}

/**
 * Spreads the events of each piece evenly over its width.
 * @param {Run} run
 * @param {Piece[]} pieces
 * @param {Map<string, number>} begins
 * @param {Map<string, number>} widths
 */
function spreadEvents(run, pieces, begins, widths) {
    const xs = new Float64Array(run.eventCount + 1);
    pieces.forEach((piece, i) => {
        const end = pieces[i + 1]?.first ?? run.eventCount;
        const begin = begins.get(piece.key) ?? 0;
        const width = widths.get(piece.class) ?? 0;
        const pitch = width / Math.max(1, end - piece.first);
        for (let event = piece.first; event < end; event++) xs[event] = begin + (event - piece.first) * pitch;
        xs[end] = begin + width;
    });
    return xs;
}

/**
 * @param {Run[]} runs
 * @param {string[]} phases
 * @returns {Axis}
 */
function phaseAxis(runs, phases) {
    const all = runs.map((run) => piecesOf(run, phases));
    const widths = widthsByClass(runs, all);
    const begins = new Map();
    let length = 0;
    const pieces = all.reduce(mergePieces).map((piece) => {
        const x = length;
        begins.set(piece.key, x);
        length += widths.get(piece.class) ?? 0;
        return { x, end: length, text: pieceText(piece), name: piece.name };
    });
    const xs = runs.map((run, number) => spreadEvents(run, all[number], begins, widths));
    return { kind: "phase", length, xs, shortest: 4, pieces };
}

/**
 * @param {AxisKind} kind
 * @param {Run[]} runs
 * @param {string[]} phases
 * @returns {Axis}
 */
export function makeAxis(kind, runs, phases = []) {
    if (kind === "event") return eventAxis(runs);
    if (kind === "phase") return phaseAxis(runs, phases);
    return timeAxis(runs);
}

/**
 * Returns the last event of a run at or before x; BEFORE_ALL if there is none.
 * @param {Axis} axis
 * @param {number} run
 * @param {number} x
 */
export function momentAt(axis, run, x) {
    const xs = axis.xs[run];
    return lastAtMost(xs, x, xs.length - 1);
}

/**
 * Returns the last event before x; -1 if there is none. Searches from the event `from`, which is near it or is -1.
 * @param {Axis} axis
 * @param {number} run
 * @param {number} x
 * @param {number} [from]
 */
export function momentBefore(axis, run, x, from = -1) {
    const xs = axis.xs[run];
    let low = Math.max(0, from);
    let high = xs.length - 1;
    if (from >= 0) {
        let reach = 16;
        while (low + reach < high && xs[low + reach] < x) {
            low += reach;
            reach *= 2;
        }
        high = Math.min(high, low + reach);
    }
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (xs[middle] < x) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}
