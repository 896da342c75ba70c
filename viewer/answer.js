/**
 * The card at the top of the page in words: the verdict, what was refused, the peak and its place in the program. Also the
 * differences between the page and the trace.
 */
import { compositionAt } from "./composition.js";
import { make, shortText } from "./dom.js";
import { reservedAt } from "./moment.js";
import { changeText, exactBytes, plural, sizeText } from "./numbers.js";
import { cardBars, remedyLines } from "./verdict_card.js";
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
 * Returns the verdict about one run: "Fits: 15.88 of 23.52 GiB", "Out of memory: 940.00 MiB short".
 * @param {Scene} scene
 */
export function verdictText({ runs, refusals, answers }) {
    const { info, peaks } = runs[0];
    const verdict = answers?.verdict;
    const short = answers?.what_if?.oom?.memory.short_bytes ?? verdict?.short_bytes ?? 0;
    if (refusals[0])
        return `Out of memory: ${short ? `${sizeText(short)} short` : `${sizeText(refusals[0].bytes)} refused`}`;
    if (!verdict || verdict.card_bytes === 0) return `Peak: ${sizeText(peaks.allocated.bytes)}`;
    const part = ofText(verdict.needed_bytes, verdict.card_bytes);
    if (info.state !== "done") return `Peak: ${part}`;
    if (!verdict.fits) return `Does not fit: ${sizeText(short)} short, ${part}`;
    return verdict.fills_at < 0 ? `Fits: ${part}` : `Fits until iteration ${verdict.fills_at}, by estimate: ${part}`;
}

/**
 * Returns "15.88 of 23.52 GiB", with both units if they differ.
 * @param {number} part
 * @param {number} whole
 */
export function ofText(part, whole) {
    const [first, second] = [sizeText(part), sizeText(whole)];
    const unit = second.slice(second.indexOf(" "));
    return `${first.endsWith(unit) ? first.slice(0, -unit.length) : first} of ${second}`;
}

/** @param {Scene} scene */
function oneRun(scene) {
    const run = scene.runs[0];
    const { allocated, reserved } = run.peaks;
    if (allocated.bytes === 0) return [make("p", {}, "Nothing was allocated in this run.")];
    /** @param {number} event */
    const placeOf = (event) => inPlaceText(describeMoment(scene.description, run, event));
    const place = placeOf(allocated.event);
    const then = sizeText(reservedAt(run, allocated.event));
    const most = sizeText(reserved.bytes);
    const atMost = `${most} reserved at most`;
    const reservedText = then === most ? atMost : `${then} reserved then, ${atMost}${placeOf(reserved.event)}`;
    return [
        make(
            "p",
            {},
            make("span", { id: "peak-size" }, sizeText(allocated.bytes)),
            ` allocated at the peak${place && ","}${place}; ${reservedText}. `,
            make("span", { class: "faint" }, `${exactBytes(allocated.bytes)}.`),
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
 * Says what was refused last, and where.
 * @param {Scene} scene
 * @param {number} number
 */
function refusalText(scene, number) {
    const run = scene.runs[number];
    const { texts, categories } = scene.description;
    return run.lanes.ooms.slice(-1).map(({ event, bytes, label, span }) => {
        const what =
            label > 0 ? `${categories[run.labels.category[label]]} (${texts[run.labels.op[label]]})` : "a block";
        const place = describeMoment(scene.description, run, event);
        const where = inPlaceText({ ...place, span: texts[span] || place.span });
        const line = number === 0 && scene.refusals[0] && scene.answers?.verdict?.line;
        return make(
            "p",
            {},
            ...(scene.refusals[number] ? [] : [make("span", { class: "alarm" }, "Out of memory: ")]),
            `${sizeText(bytes)}${bytes === MOST_REQUESTED ? " or more" : ""} for ${what} could not be allocated` +
                `${where}${line ? ` at ${line}` : ""} on ${run.info.device}. `,
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
    return [
        make(
            "p",
            {},
            make("span", { id: "peak-size" }, sizeText(second)),
            ` allocated at the peak of ${to}, ${sizeText(first)} at the peak of ${from}`,
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
    return oom ? [make("p", { id: "verdict" }, oom.verdict)] : [];
}

/**
 * Returns what makes the figures of a dry run uncertain, a line each.
 * @param {Scene} scene
 */
function notes({ answers }) {
    return (answers?.verdict?.notes ?? []).map((note) => make("p", { class: "faint note" }, note));
}

/**
 * Returns the title of the card: the verdict about one run, or how two runs compare.
 * @param {Scene} scene
 */
function cardTitle(scene) {
    if (scene.runs.length === 1) return verdictText(scene);
    const [first, second] = scene.runs.map((run) => run.peaks.allocated.bytes);
    const [from, to] = scene.runs.map((run) => shortText(runName(run.info)));
    if (first === second) return `${to} peaks as high as ${from}`;
    return `${to} peaks ${sizeText(Math.abs(second - first))} ${second > first ? "higher" : "lower"} than ${from}`;
}

/**
 * Writes the card into `element`: the verdict, what it rests on, bars of memory, and the first remedy.
 * @param {HTMLElement} element
 * @param {Scene} scene
 */
export function showAnswer(element, scene) {
    const { fits = true, card_bytes: card = 0 } = scene.answers?.verdict ?? {};
    const isAlarm = scene.refusals.some((refusal) => refusal !== null) || (card > 0 && !fits);
    element.replaceChildren(
        make("h2", { id: "verdict-title", class: isAlarm ? "alarm" : undefined }, cardTitle(scene)),
        ...cardBars(scene),
        ...remedyLines(scene),
        ...scene.runs.flatMap((_, number) => refusalText(scene, number)),
        ...oomText(scene),
        ...(scene.runs.length > 1 ? twoRuns(scene) : oneRun(scene)),
        ...notes(scene),
        ...losses(scene),
        ...disagreements(scene),
    );
}
