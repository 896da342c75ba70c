/** Why two runs differ, as memtrace diff tells it: its sentence, and the causes, which sum to the difference. */
import { byId, make, setText } from "./dom.js";
import { changeText, exactBytes } from "./numbers.js";

const MOST_CAUSES = 12;

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
        const rest = most.splice(MOST_CAUSES).reduce((sum, { bytes }) => sum + bytes, 0);
        setText(byId("causes-sentence"), answers.sentence ?? "");
        byId("cause-rows").replaceChildren(
            ...most.map(({ cause, bytes, evidence }) => makeCause(cause, bytes, evidence)),
            ...(rest === 0 ? [] : [makeCause("all other causes", rest)]),
            makeCause("allocated at the peak", delta),
        );
    }
}
