/**
 * The roles or categories that colours stand for, largest at the peak first, each with its bytes at the pinned moment. A click
 * isolates one. Below them are the two kinds of memory without a block that the map shows.
 */
import { compositionAt } from "./composition.js";
import { COLOR_KEYS, paintSwatch } from "./colors.js";
import { make, setText, shortText } from "./dom.js";
import { allocatedAt, reservedAt } from "./moment.js";
import { runName } from "./where.js";
import { changeText, percentText, sizeText } from "./numbers.js";

/**
 * Returns the colours that the runs have, by bytes at the peak.
 * @param {Scene} scene
 */
function colorsInOrder(scene) {
    const present = new Set();
    for (const { blocks, labels } of scene.runs)
        blocks.isUsed.forEach((is, label) => is && present.add(labels.color[label]));
    const atPeak = scene.runs.map((run) =>
        compositionAt(run.memory, run.peaks.allocated.event, new Float64Array(scene.colors.length)),
    );
    /** @param {number} c */
    const weight = (c) => Math.max(...atPeak.map((bytes) => bytes[c]));
    return scene.colors
        .map((_, c) => c)
        .filter((c) => present.has(c))
        .sort((a, b) => weight(b) - weight(a));
}

/**
 * Makes the heads of the columns for two runs.
 * @param {Scene} scene
 */
function makeHeads({ runs, colorKey }) {
    const names = runs.map((run) => shortText(runName(run.info)));
    return make(
        "li",
        { class: "memory heads" },
        make("span", {}),
        make("span", {}, colorKey),
        make("span", { class: "size" }, names[0]),
        make("span", { class: "share" }, `in ${names[1]}`),
    );
}

/**
 * Makes the entry of a kind of memory without a block.
 * @param {string} name
 * @param {string} meaning
 * @param {...Node} size
 */
function makeSurface(name, meaning, ...size) {
    return make(
        "li",
        { class: `memory ${name}`, title: meaning },
        make("span", { class: "surface" }),
        make("span", {}, name),
        ...size,
    );
}

/**
 * Makes the list of what colours can stand for.
 * @param {Scene} scene
 */
function makeColorKey(scene) {
    const select = make("select", { id: "color-key" }, ...COLOR_KEYS.map((key) => make("option", {}, key)));
    select.addEventListener("change", () => scene.setColorKey(select.value));
    return select;
}

export class Legend {
    /**
     * @param {HTMLElement} element
     * @param {Scene} scene
     */
    constructor(element, scene) {
        this.scene = scene;
        this.element = element;
        this.colors = scene.colors; // of the entries
        this.key = makeColorKey(scene);
        this.cached = make("span", { class: "size" });
        /** @type {ReturnType<Legend["makeEntry"]>[]} */
        this.entries = [];
        this.fill();
        element.before(make("p", { class: "on-screen" }, make("label", {}, "Colour by ", this.key)));
    }

    /** Fills the list with the entries of the scene's colours. */
    fill() {
        const { scene, element } = this;
        this.entries = colorsInOrder(scene).map((color) => this.makeEntry(color));
        element.setAttribute("aria-label", `Bytes by ${scene.colorKey} at the pinned moment`);
        element.replaceChildren(
            ...(scene.runs.length > 1 ? [makeHeads(scene)] : []),
            ...this.entries.map(({ button }) => make("li", {}, button)),
            makeSurface("cached", "reserved, and in no block", this.cached),
            makeSurface("unmapped", "in the map: addresses without memory"),
        );
    }

    /** @param {number} color */
    makeEntry(color) {
        const { scene } = this;
        const swatch = make("canvas", { width: "14", height: "14", "aria-hidden": "true" });
        paintSwatch(swatch, scene.colors[color]);
        const size = make("span", { class: "size" });
        const share = make("span", { class: "share" });
        const button = make(
            "button",
            {
                type: "button",
                "aria-pressed": "false",
                title: `Show this ${scene.colorKey} alone`,
                onclick: () => scene.set({ isolated: scene.isolated === color ? -1 : color }),
            },
            swatch,
            make("span", {}, shortText(scene.colors[color].name)),
            size,
            share,
        );
        return { color, button, size, share };
    }

    /** Shows the composition at the pinned moment. */
    update() {
        const { scene } = this;
        if (scene.colors !== this.colors) this.fill();
        this.colors = scene.colors;
        this.key.value = scene.colorKey;
        const bytes = scene.runs.map((_, i) =>
            compositionAt(scene.shown(i).memory, scene.moments[i], new Float64Array(scene.colors.length)),
        );
        const whole = bytes[0].reduce((sum, each) => sum + each, 0);
        const [run, moment] = [scene.runs[0], scene.moments[0]];
        setText(this.cached, sizeText(reservedAt(run, moment) - allocatedAt(scene, 0, moment)));
        for (const { color, button, size, share } of this.entries) {
            setText(size, sizeText(bytes[0][color]));
            button.dataset.bytes = String(bytes[0][color]);
            if (bytes.length > 1) {
                const more = bytes[1][color] - bytes[0][color];
                setText(share, more === 0 ? "same" : `${changeText(more)}`);
            } else setText(share, percentText(bytes[0][color], whole));
            button.setAttribute("aria-pressed", String(scene.isolated === color));
            button.classList.toggle(
                "none",
                bytes.every((each) => each[color] === 0),
            );
            button.classList.toggle("off", scene.isolated >= 0 && scene.isolated !== color);
        }
    }
}
