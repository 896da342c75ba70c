/**
 * What x means: time, event number, or steps and phases laid over each other.
 *
 * An axis maps events to x, and never backwards: xs[event + 1] >= xs[event]. What is live after an event is drawn from
 * its x to the next one's. With two runs there is one x for both, and a map for each.
 *
 * @typedef {Object} Axis
 * @property {"time" | "event" | "phase"} kind
 * @property {number} length   x is in [0, length]
 * @property {Float64Array[]} xs   by run: x of each event, and of its end
 * @property {number} shortest   the least length that is worth looking at
 * @property {{x: number, text: string}[]} [pieces]   of the phase axis: where each begins
 */
import { intervalAt, lastAtMost } from "./marks.js";

export const AXIS_KINDS = ["time", "event", "phase"];

function timeAxis(runs) {
    const xs = runs.map((run) => run.time);
    return { kind: "time", length: Math.max(1, ...xs.map((x) => x.at(-1))), xs, shortest: 20 };
}

function eventAxis(runs) {
    const xs = runs.map((run) => Float64Array.from({ length: run.eventCount + 1 }, (_, event) => event));
    return { kind: "event", length: Math.max(1, ...runs.map((run) => run.eventCount)), xs, shortest: 4 };
}

/**
 * The pieces of a run that can be laid over another's: key, first event, step, name. What lies between two phases is
 * a piece too, so that no event is left out.
 */
function piecesOf(run, phases) {
    const { steps, phases: lane } = run.lanes;
    const pieces = [];
    let at = 0;
    const add = (first, step, name) => {
        if (first < at) return;
        const times = pieces.filter((piece) => piece.step === step && piece.name === name).length;
        pieces.push({ key: `${step}/${name}/${times}`, class: `${name}/${times}`, first, step, name });
        at = first;
    };
    for (let i = 0; i < lane.begin.length; i++) {
        const step = intervalAt(steps, lane.begin[i]);
        add(lane.begin[i], step < 0 ? (pieces.at(-1)?.step ?? -1) : steps.text[step], phases[lane.text[i]] ?? "");
    }
    if (pieces.length === 0 || pieces[0].first > 0) {
        pieces.unshift({ key: "-1//0", class: "/0", first: 0, step: -1, name: "" });
    }
    return pieces;
}

/** The keys of all runs, in each run's own order: what only a later run has goes after what preceded it. */
function mergedPieces(all) {
    const merged = [...all[0]];
    for (const pieces of all.slice(1)) {
        let after = -1;
        for (const piece of pieces) {
            const known = merged.findIndex(({ key }) => key === piece.key);
            if (known < 0) merged.splice(++after, 0, piece);
            else after = known;
        }
    }
    return merged;
}

/** Every piece of a class is as wide as the longest of them, in events, so that steps are laid under each other. */
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

/** Events of a piece are spread evenly over its width. */
function spreadEvents(run, pieces, begins, widths) {
    const xs = new Float64Array(run.eventCount + 1);
    pieces.forEach((piece, i) => {
        const end = pieces[i + 1]?.first ?? run.eventCount;
        const begin = begins.get(piece.key);
        const pitch = widths.get(piece.class) / Math.max(1, end - piece.first);
        for (let event = piece.first; event < end; event++) xs[event] = begin + (event - piece.first) * pitch;
        xs[end] = begin + widths.get(piece.class);
    });
    return xs;
}

function phaseAxis(runs, phases) {
    const all = runs.map((run) => piecesOf(run, phases));
    const widths = widthsByClass(runs, all);
    const begins = new Map();
    let length = 0;
    const pieces = mergedPieces(all).map((piece) => {
        begins.set(piece.key, length);
        length += widths.get(piece.class);
        return { x: begins.get(piece.key), text: piece.step < 0 ? piece.name : `${piece.step} ${piece.name}` };
    });
    const xs = runs.map((run, number) => spreadEvents(run, all[number], begins, widths));
    return { kind: "phase", length, xs, shortest: 4, pieces };
}

/** @returns {Axis} */
export function makeAxis(kind, runs, phases) {
    if (kind === "event") return eventAxis(runs);
    if (kind === "phase") return phaseAxis(runs, phases);
    return timeAxis(runs);
}

/** The last event of a run at or before x, where there is any before its end; -1: none. */
export function momentAt(axis, run, x) {
    const xs = axis.xs[run];
    return lastAtMost(xs, x, xs.length - 1);
}

/** The last event before x; none before `from`, which is near it or is -1. */
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
