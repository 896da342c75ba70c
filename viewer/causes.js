/** Why two runs differ, as memtrace diff tells it: its sentence, and the causes, which sum to the difference. */
import { byId, make, setText } from "./dom.js";
import { changeText, exactBytes } from "./numbers.js";

/** Causes that are shown: so many at most, and none below this share of the largest. */
const MOST_CAUSES = 12;
const LEAST_SHARE = 0.001;

/**
 * @param {string} name
 * @param {number} bytes
 * @param {string} [title]
 */
function makeCause(name, bytes, title = "") {
    return make(
        "tr",
        { title: title || undefined },
        make("th", { scope: "row" }, name),
        make("td", { class: "size", title: exactBytes(bytes) }, changeText(bytes)),
    );
}

export class Causes {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        /** @type {?Answers} */
        this.told = null;
    }

    update() {
        const { answers } = this.scene;
        if (answers === this.told) return;
        this.told = answers;
        byId("causes").hidden = !answers?.diff;
        if (!answers?.diff) return;
        const { causes, allocated_delta_bytes: delta } = answers.diff;
        const most = [...causes].sort((a, b) => Math.abs(b.bytes) - Math.abs(a.bytes));
        const least = LEAST_SHARE * Math.abs(most[0]?.bytes ?? 0);
        const shown = most.filter(({ bytes }) => Math.abs(bytes) >= least).slice(0, MOST_CAUSES);
        const rest = most.slice(shown.length).reduce((sum, { bytes }) => sum + bytes, 0);
        setText(byId("causes-sentence"), answers.sentence ?? "");
        byId("cause-rows").replaceChildren(
            ...shown.map(({ cause, bytes, evidence }) => makeCause(cause, bytes, evidence)),
            ...(rest === 0 ? [] : [makeCause("all other causes", rest)]),
            makeCause("allocated at the peak", delta),
        );
    }
}
