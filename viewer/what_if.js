/**
 * What memtrace advise or memtrace oom found besides the first remedy. Then the changes that save memory, the largest saving
 * first: of each the bytes before and after, as bars on one scale. The one that is pressed is drawn in the area, too, and shows
 * the line to write. A card can be chosen, and each change says if it fits that.
 */
import { bytesBefore, furtherRemedies, lineOf, peakOfChange, savingChanges, savingOf } from "./answers.js";
import { copyText } from "./copy_command.js";
import { breakableText, byId, make, makeCode, refill, setText, shortText } from "./dom.js";
import { changeText, sizeText } from "./numbers.js";

/** Changes that are shown until all are asked for. */
const FEW_CHANGES = 6;

export class WhatIf {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        this.showsAll = false;
        /** @type {unknown[]} */
        this.from = [];
        byId("card").addEventListener("change", () => scene.set({ card: byId("card").value }));
        byId("all-changes").addEventListener("click", () => {
            this.showsAll = true;
            scene.onChange();
        });
    }

    update() {
        const { scene } = this;
        const from = [scene.answers, scene.change, scene.card, this.showsAll];
        if (from.every((each, i) => each === this.from[i])) return;
        const isNew = from[0] !== this.from[0];
        this.from = from;
        const whatIf = scene.answers?.what_if;
        byId("what-if").hidden = !whatIf;
        if (!whatIf) return;
        if (isNew) this.makeCards(whatIf);
        byId("card").value = scene.card;
        refill(byId("remedies"), furtherRemedies(whatIf).map(makeRemedy));
        const changes = savingChanges(whatIf);
        const shown = this.showsAll ? changes : changes.slice(0, FEW_CHANGES);
        setText(byId("what-if-now"), this.nowText(whatIf, changes.length));
        refill(
            byId("changes"),
            shown.map((change) => this.makeChange(change, whatIf)),
        );
        byId("all-changes").hidden = shown.length === changes.length;
        setText(byId("all-changes"), `Show all ${changes.length}`);
        this.announce(whatIf);
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

    /**
     * @param {WhatIfAnswer} whatIf
     * @param {number} count
     */
    nowText(whatIf, count) {
        const before = whatIf.as_it_was;
        const asItWas = whatIf.oom
            ? `As it was: ${sizeText(bytesBefore(whatIf))} reserved with what was refused.`
            : `As it was: at most ${sizeText(before.reserved_bytes)} reserved${this.roomText(before)}.`;
        return count > 0 ? asItWas : `${asItWas} No change that was tried saves memory.`;
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
        return `, ${sizeText(-room)} too many unless cached memory is freed`;
    }

    /**
     * @param {Change} change
     * @param {WhatIfAnswer} whatIf
     */
    makeChange(change, whatIf) {
        const { scene } = this;
        const isOn = scene.change === change;
        const [before, after] = [bytesBefore(whatIf), peakOfChange(change)];
        const button = make(
            "button",
            {
                type: "button",
                class: "change",
                "aria-pressed": String(isOn),
                "data-key": change.change,
                onclick: () => scene.set({ whatIf: isOn ? "" : change.change }),
            },
            make("span", {}, ...breakableText(shortText(change.change))),
            make("span", { class: "saving" }, changeText(-savingOf(change, whatIf))),
            this.makeScale(before, after),
            make(
                "span",
                { class: "sizes" },
                `${sizeText(before)} → ${sizeText(after)} reserved${this.roomText(change)}`,
            ),
        );
        return make("li", {}, button, ...(isOn ? [makeLine(change)] : []));
    }

    /**
     * Makes the bar of a change. All have one scale: up to the bytes before, or to a capacity that is not far above.
     * @param {number} before
     * @param {number} after
     */
    makeScale(before, after) {
        const { capacity } = this.scene;
        const isNear = capacity > 0 && capacity <= 1.5 * before;
        const whole = isNear ? Math.max(before, capacity) : before;
        /**
         * @param {string} name
         * @param {"width" | "left"} property
         * @param {number} bytes
         */
        const part = (name, property, bytes) => {
            const element = make("span", { class: name });
            element.style[property] = `${(100 * bytes) / whole}%`;
            return element;
        };
        return make(
            "span",
            { class: "scale", "aria-hidden": "true" },
            part("before", "width", before),
            part("after", "width", after),
            ...(isNear ? [part("limit", "left", capacity)] : []),
        );
    }

    /**
     * Says what the change that is pressed would do.
     * @param {WhatIfAnswer} whatIf
     */
    announce(whatIf) {
        const { change } = this.scene;
        const text = change ? `With it, ${sizeText(peakOfChange(change))} reserved${this.roomText(change)}` : "";
        setText(byId("what-if-text"), change ? `${text}, ${changeText(-savingOf(change, whatIf))}.` : "");
    }
}

/**
 * Makes the line to write for a change, and says how its figures were found.
 * @param {Change} change
 */
function makeLine(change) {
    const proof =
        change.proof === "replay" ? "Replayed with the run's own blocks." : "The whole run was simulated with it.";
    return make(
        "div",
        { class: "change-line" },
        makeCode({ id: "what-if-line", title: proof }, lineOf(change)),
        make("button", { type: "button", id: "copy-line", onclick: () => copyText(lineOf(change)) }, "Copy"),
    );
}

/**
 * Makes a remedy that no replay measured: what takes memory and, if that is known, the line to write.
 * @param {Remedy} remedy
 */
function makeRemedy({ what, how }) {
    const line = [
        makeCode({}, how),
        make("button", { type: "button", "data-key": what, onclick: () => copyText(how) }, "Copy"),
    ];
    return make(
        "li",
        {},
        make("p", {}, ...breakableText(shortText(what))),
        ...(how ? [make("div", { class: "change-line" }, ...line)] : []),
    );
}
