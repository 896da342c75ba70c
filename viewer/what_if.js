/**
 * The changes that were checked, each with its peak and a small chart of its course. The one that is pressed is drawn in the
 * area, too. A card can be chosen, and each change tells if it fits that.
 */
import { eventOfBin, peakOfChange } from "./answers.js";
import { copyText } from "./copy_command.js";
import { byId, copyOf, make, refill, setText, shortText } from "./dom.js";
import { changeText, sizeText } from "./numbers.js";

/** The units of a chart (page.html), which its box stretches. */
const COURSE_WIDTH = 1000;
const COURSE_HEIGHT = 100;
const LEVEL_HEIGHT = 8;

/**
 * Returns the outline of the reserved bytes of a curve over the events of its run, as SVG has it.
 * @param {Curve} curve
 * @param {number} eventCount
 * @param {number} most
 */
export function curvePath(curve, eventCount, most) {
    /** @param {number} i */
    const x = (i) => ((eventOfBin(curve, i, eventCount) / Math.max(1, eventCount)) * COURSE_WIDTH).toFixed(0);
    const parts = curve.reserved_bytes.map(
        (bytes, i) => `V${(COURSE_HEIGHT * (1 - bytes / most)).toFixed(1)}H${x(i + 1)}`,
    );
    return `M${x(0)} ${COURSE_HEIGHT}${parts.join("")}V${COURSE_HEIGHT}Z`;
}

/**
 * Returns the outline of a line at a peak, of a change whose course is not known.
 * @param {number} peak
 * @param {number} most
 */
function levelPath(peak, most) {
    const y = Math.min(COURSE_HEIGHT - LEVEL_HEIGHT, COURSE_HEIGHT * (1 - peak / most));
    return `M0 ${y.toFixed(1)}H${COURSE_WIDTH}v${LEVEL_HEIGHT}H0Z`;
}

/**
 * Returns the line to copy: a command, or the hint of what to write.
 * @param {Change} change
 */
export function lineOf({ command, hint }) {
    return command || hint;
}

export class WhatIf {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        /** @type {unknown[]} */
        this.from = [];
        byId("card").addEventListener("change", () => scene.set({ card: byId("card").value }));
        byId("copy-line").addEventListener("click", () => scene.change && copyText(lineOf(scene.change)));
    }

    update() {
        const { scene } = this;
        const from = [scene.answers, scene.change, scene.card];
        if (from.every((each, i) => each === this.from[i])) return;
        const isNew = from[0] !== this.from[0];
        this.from = from;
        const whatIf = scene.answers?.what_if;
        byId("what-if").hidden = !whatIf;
        if (!whatIf) return;
        if (isNew) this.makeCards(whatIf);
        byId("card").value = scene.card;
        setText(byId("what-if-now"), this.nowText(whatIf));
        refill(
            byId("changes"),
            whatIf.changes.map((change) => this.makeChange(change, whatIf)),
        );
        this.tell(whatIf);
    }

    /** @param {WhatIfAnswer} whatIf */
    makeCards({ cards }) {
        const own = this.scene.runs[0].info.capacity_bytes;
        const name = own > 0 ? `its card, ${sizeText(own)}` : "any card";
        byId("card").replaceChildren(
            make("option", { value: "" }, name),
            ...cards.map((card) =>
                make("option", { value: card.name }, `${card.name}, ${sizeText(card.usable_bytes)}`),
            ),
        );
    }

    /** @param {WhatIfAnswer} whatIf */
    nowText({ as_it_was: before, changes }) {
        const asItWas = before.fits
            ? `As it was, by ${before.alloc}: at most ${sizeText(before.reserved_bytes)} reserved${this.roomText(before)}.`
            : `As it was, by ${before.alloc}: it ends out of memory.`;
        return changes.length > 0 ? asItWas : `${asItWas} No change that was tried would do.`;
    }

    /**
     * Returns ", 3.20 GiB to spare" of the card; "" if none is known.
     * @param {Change} change
     */
    roomText(change) {
        const { capacity } = this.scene;
        if (capacity === 0) return "";
        const room = capacity - peakOfChange(change);
        if (room >= 0) return `, ${sizeText(room)} to spare`;
        if (change.allocated_bytes > capacity) return `, ${sizeText(change.allocated_bytes - capacity)} too many`;
        return `, ${sizeText(-room)} too many unless cached memory is given back`;
    }

    /**
     * Returns "57.11 GiB reserved, −9.04 GiB".
     * @param {Change} change
     * @param {Change} before
     */
    peakText(change, before) {
        if (!change.fits) return "ends out of memory";
        const by = before.fits ? `, ${changeText(peakOfChange(change) - before.reserved_bytes)}` : "";
        return `${sizeText(peakOfChange(change))} reserved${by}`;
    }

    /**
     * @param {Change} change
     * @param {WhatIfAnswer} whatIf
     */
    makeChange(change, { as_it_was: before }) {
        const { scene } = this;
        const isOn = scene.change === change;
        return make(
            "li",
            {},
            make(
                "button",
                {
                    type: "button",
                    "aria-pressed": String(isOn),
                    "data-key": change.change,
                    onclick: () => scene.set({ whatIf: isOn ? "" : change.change }),
                },
                this.makeChart(change, before),
                make("span", {}, shortText(change.change)),
                make("span", { class: "faint" }, this.peakText(change, before) + this.roomText(change)),
            ),
        );
    }

    /**
     * @param {Change} change
     * @param {Change} before
     */
    makeChart(change, before) {
        const chart = copyOf("change-chart");
        const { eventCount } = this.scene.runs[0];
        const [was, is] = chart.children;
        const peak = peakOfChange(change);
        const all = [before, change].flatMap(({ curve }) => curve?.reserved_bytes ?? []);
        const most = Math.max(1, peak, ...all);
        if (before.curve) was.setAttribute("d", curvePath(before.curve, eventCount, most));
        is.setAttribute("d", change.curve ? curvePath(change.curve, eventCount, most) : levelPath(peak, most));
        return chart;
    }

    /**
     * Says what the change that is pressed would do, and how to make it.
     * @param {WhatIfAnswer} whatIf
     */
    tell({ as_it_was: before }) {
        const { change } = this.scene;
        byId("what-if-do").hidden = !change;
        if (!change) {
            setText(byId("what-if-text"), "");
            return;
        }
        const proof = change.proof === "replay" ? "replayed with the run's blocks" : "the whole run simulated";
        setText(byId("what-if-text"), `With it, ${proof}: ${this.peakText(change, before)}${this.roomText(change)}.`);
        setText(byId("what-if-line"), lineOf(change));
    }
}
