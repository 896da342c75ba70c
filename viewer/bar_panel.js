/**
 * The part of the side panel about the selected bar: a step, phase or span with its highest memory, or a kernel with
 * the op that launched it, and links to them. A trace stores the label of a kernel's op, and not the launch. So the
 * link goes to the latest block of that op before the kernel began.
 */
import { intervalText } from "./bars.js";
import { findHighest } from "./composition.js";
import { byId, make, setText, shortText } from "./dom.js";
import { lastAtMost } from "./marks.js";
import { plural, sizeText, timeText } from "./numbers.js";
import { withRange } from "./view.js";
import { describeMoment, listText, placeText } from "./where.js";

/**
 * Returns the latest block that the op of a label allocated up to a moment; -1 if there is none.
 * @param {Run} run
 * @param {number} label
 * @param {number} moment
 */
export function blockOfOp(run, label, moment) {
    const { op, span, phase } = run.labels;
    const { alloc, label: labels } = run.blocks;
    for (let block = lastAtMost(alloc, moment); block >= 0; block--) {
        const other = labels[block];
        if (op[other] === op[label] && span[other] === span[label] && phase[other] === phase[label]) return block;
    }
    return -1;
}

/**
 * Returns the latest interval of a span that began up to a moment: { lane, i }; null if there is none.
 * @param {Run} run
 * @param {number} span
 * @param {number} moment
 */
export function spanBefore(run, span, moment) {
    let latest = null;
    for (const lane of run.lanes.spans) {
        let i = lastAtMost(lane.begin, moment);
        while (i >= 0 && lane.text[i] !== span) i--;
        if (i >= 0 && (!latest || lane.begin[i] > latest.lane.begin[latest.i])) latest = { lane, i };
    }
    return latest;
}

/**
 * @param {Scene} scene
 * @param {Bar} bar
 */
function showSpan(scene, { lane, i }) {
    const xs = scene.axis.xs[scene.mapRun];
    scene.set({ view: withRange(scene.view, scene.axis, xs[lane.begin[i]], xs[lane.end[i]]) });
}

/**
 * @param {string} text
 * @param {EventListener} onclick
 */
function link(text, onclick) {
    return make("button", { type: "button", class: "link", onclick }, shortText(text));
}

/**
 * Returns the facts about the launch of a kernel, with links to its op and span.
 * @param {Scene} scene
 * @param {Run} run
 * @param {number} label
 * @param {number} moment
 */
function launcherFacts(scene, run, label, moment) {
    const { texts } = scene.description;
    if (label === 0) return [["launched by", "an unknown op"]];
    const op = texts[run.labels.op[label]] || "an unnamed op";
    const path = texts[run.labels.span[label]].split(".").join(" › ") || "–";
    const block = blockOfOp(run, label, moment);
    const span = spanBefore(run, run.labels.span[label], moment);
    return [
        ["launched by", block < 0 ? shortText(op) : link(op, () => scene.reveal(block))],
        ["called by", span ? link(path, () => showSpan(scene, span)) : shortText(path)],
    ];
}

/**
 * @param {Scene} scene
 * @param {Run} run
 * @param {Lane} lane
 * @param {number} i
 */
function kernelFacts(scene, run, lane, i) {
    const moment = lastAtMost(run.time, lane.begin[i], run.eventCount);
    const place = describeMoment(scene.description, run, moment);
    return [
        ["name", shortText(scene.description.texts[lane.text[i]])],
        ...launcherFacts(scene, run, lane.label[i], moment),
        ["began", listText(timeText(lane.begin[i]), placeText({ ...place, span: "" }))],
        ["took", timeText(lane.end[i] - lane.begin[i])],
        ["on", lane.name.replace("kernels", "stream")],
    ];
}

/**
 * Returns the facts about a step, phase or span: its beginning, duration and highest moment, with a link to that.
 * @param {Scene} scene
 * @param {Run} run
 * @param {Lane} lane
 * @param {number} i
 */
function intervalFacts(scene, run, lane, i) {
    const [begin, end] = [lane.begin[i], lane.end[i]];
    const { time, ...place } = describeMoment(scene.description, run, begin);
    const { bytes, moment } = findHighest(run.memory, run.peakIndex, begin, end - 1);
    const pin = () => scene.pin(scene.moments.map((each, number) => (number === scene.mapRun ? moment : each)));
    return [
        ["name", shortText(intervalText(scene, { lane }, i))],
        ["began", listText(time, placeText({ ...place, span: "" }))],
        ["took", `${timeText(run.time[end] - run.time[begin])}, ${plural(end - begin, "event")}`],
        ["allocated", link(`at most ${sizeText(bytes)}`, pin)],
    ];
}

const TITLES = { program: "Program phase", step: "Step", phase: "Phase", span: "Span", kernel: "Kernel" };

export class BarPanel {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        /** @type {unknown[]} */
        this.shown = []; // the bar that is shown, with the axis and whether times were exact
        byId("close-bar").addEventListener("click", () => scene.set({ bar: null }));
    }

    update() {
        const { scene } = this;
        const { bar, axis, timed } = scene;
        if (bar === this.shown[0] && axis === this.shown[1] && timed === this.shown[2]) return;
        this.shown = [bar, axis, timed];
        byId("bar").hidden = !bar;
        if (!bar) return;
        const { lane, i } = bar;
        const factsOf = lane.kind === "kernel" ? kernelFacts : intervalFacts;
        setText(byId("bar-title"), TITLES[lane.kind]);
        byId("bar-facts").replaceChildren(
            ...factsOf(scene, scene.runs[scene.mapRun], lane, i).flatMap(([name, value]) => [
                make("dt", {}, name),
                make("dd", {}, value),
            ]),
        );
    }
}
