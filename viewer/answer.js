/**
 * The first sentences of the page: the peak, its place in the program and its categories. Also the differences between
 * the page and the trace.
 */
import { compositionAt } from "./composition.js";
import { make } from "./dom.js";
import { changeText, exactBytes, percentText, plural, sizeText } from "./numbers.js";
import { describeMoment, inPlaceText, runName } from "./where.js";

/** The largest request that a page stores (docs/page.md). */
const MOST_REQUESTED = 2 ** 48 - 1;

/**
 * Returns the categories at a run's peak, largest first: [{ name, bytes }].
 * @param {Scene} scene
 * @param {number} number
 */
export function peakShares(scene, number) {
    const run = scene.runs[number];
    const bytes = compositionAt(run.memory, run.peaks.allocated.event, new Float64Array(scene.colors.length));
    return scene.colors
        .map(({ name }, i) => ({ name, bytes: bytes[i] }))
        .filter((share) => share.bytes > 0)
        .sort((a, b) => b.bytes - a.bytes);
}

/**
 * @param {{name: string, bytes: number}[]} shares
 * @param {number} whole
 */
function sharesText(shares, whole) {
    const most = shares
        .slice(0, 4)
        .map(({ name, bytes }) => `${name} ${sizeText(bytes)} (${percentText(bytes, whole)})`);
    return shares.length > 4 ? `${most.join(", ")}, and ${shares.length - 4} more` : most.join(", ");
}

/** @param {Scene} scene */
function oneRun(scene) {
    const run = scene.runs[0];
    const { allocated, reserved } = run.peaks;
    if (allocated.bytes === 0) return [make("p", {}, "Nothing was allocated in this run.")];
    const place = inPlaceText(describeMoment(scene.description, run, allocated.event));
    return [
        make(
            "p",
            {},
            make("strong", { id: "peak-size" }, sizeText(allocated.bytes)),
            ` allocated at the peak${place && ","}${place}: `,
            sharesText(peakShares(scene, 0), allocated.bytes),
            ". ",
            make(
                "span",
                { class: "faint" },
                `${exactBytes(allocated.bytes)}; ${sizeText(reserved.bytes)} reserved at most.`,
            ),
        ),
    ];
}

/**
 * Pins the moment of a refused request in its run, and shows it.
 * @param {Scene} scene
 * @param {number} number
 * @param {number} event
 */
function pinRefusal(scene, number, event) {
    scene.pin(scene.moments.map((moment, i) => (i === number ? event : moment)));
    scene.showX(scene.axis.xs[number][event]);
}

/**
 * @param {Scene} scene
 * @param {number} number
 */
function outOfMemoryText(scene, number) {
    const run = scene.runs[number];
    const { texts, categories } = scene.description;
    return run.lanes.ooms.slice(-1).map(({ event, bytes, label, span }) => {
        const what =
            label > 0 ? `${categories[run.labels.category[label]]} (${texts[run.labels.op[label]]})` : "a block";
        const place = describeMoment(scene.description, run, event);
        const where = inPlaceText({ ...place, span: texts[span] || place.span });
        return make(
            "p",
            { class: "alarm" },
            make("strong", {}, "Out of memory: "),
            `${sizeText(bytes)}${bytes === MOST_REQUESTED ? " or more" : ""} for ${what} could not be allocated${where} on ${run.info.device}. `,
            make(
                "button",
                { type: "button", class: "link", onclick: () => pinRefusal(scene, number, event) },
                "Show that moment",
            ),
        );
    });
}

/** @param {Scene} scene */
function twoRuns(scene) {
    const [first, second] = scene.runs.map((run) => run.peaks.allocated.bytes);
    const [from, to] = scene.runs.map((run) => runName(run.info));
    const before = new Map(peakShares(scene, 0).map(({ name, bytes }) => [name, bytes]));
    const after = new Map(peakShares(scene, 1).map(({ name, bytes }) => [name, bytes]));
    const changes = scene.colors
        .map(({ name }) => ({ name, bytes: (after.get(name) ?? 0) - (before.get(name) ?? 0) }))
        .filter(({ bytes }) => bytes !== 0)
        .sort((a, b) => Math.abs(b.bytes) - Math.abs(a.bytes))
        .slice(0, 5)
        .map(({ name, bytes }) => `${name} ${changeText(bytes)}`);
    const by =
        second === first
            ? "as high as"
            : `${sizeText(Math.abs(second - first))} ${second > first ? "higher" : "lower"} than`;
    return [
        make(
            "p",
            {},
            make("strong", { id: "peak-size" }, sizeText(second)),
            ` allocated at the peak of ${to}, ${by} `,
            from,
            ` (${sizeText(first)})`,
            changes.length > 0 ? `: ${changes.join(", ")}.` : ".",
        ),
    ];
}

/**
 * Returns a warning for each measure whose sum on the page differs from the trace's.
 * @param {Scene} scene
 */
function disagreements(scene) {
    return scene.runs.flatMap((run) =>
        Object.entries(run.info.peaks)
            .filter(([measure, peak]) => run.peaks[measure] && run.peaks[measure].bytes !== peak.bytes)
            .map(([measure, peak]) =>
                make(
                    "p",
                    { class: "alarm", role: "alert" },
                    `The trace says that the peak of ${measure} bytes of ${runName(run.info)} is ` +
                        `${exactBytes(peak.bytes)}; its blocks sum to ${exactBytes(run.peaks[measure].bytes)}.`,
                ),
            ),
    );
}

/**
 * Returns a warning for each run with events that are not in the trace.
 * @param {Scene} scene
 */
function losses(scene) {
    return scene.runs
        .filter(({ info }) => info.lost_events > 0)
        .map(({ info }) =>
            make(
                "p",
                { class: "alarm", role: "alert" },
                `${plural(info.lost_events, "event")} of ${runName(info)} could not be stored: their memory is missing here.`,
            ),
        );
}

/**
 * Returns what memtrace oom found: what was short, and if it would have done in one piece.
 * @param {Scene} scene
 */
function oomText({ answers }) {
    const oom = answers?.what_if?.oom;
    if (!oom) return [];
    const { short_bytes: short } = oom.memory;
    return [make("p", { id: "verdict" }, short ? `${sizeText(short)} short. ${oom.verdict}` : oom.verdict)];
}

/**
 * Writes the answer into `element`.
 * @param {HTMLElement} element
 * @param {Scene} scene
 */
export function showAnswer(element, scene) {
    element.replaceChildren(
        ...scene.runs.flatMap((_, number) => outOfMemoryText(scene, number)),
        ...oomText(scene),
        ...(scene.runs.length > 1 ? twoRuns(scene) : oneRun(scene)),
        ...losses(scene),
        ...disagreements(scene),
    );
}
