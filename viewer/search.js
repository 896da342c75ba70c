/**
 * The search: finds words of labels with a text, lists what has them, and steps from one block to the next. All charts show what
 * was found alone.
 *
 * @typedef {{kind: string, text: string, count: number, live: number, first: number}} FoundGroup
 */
import { byId, make, refill, setText, shortText } from "./dom.js";
import { foundKind } from "./filter.js";
import { plural, sizeText } from "./numbers.js";

const MOST_RESULTS = 40;

/**
 * Returns the word of a label that was found: of a span its place, which has "*" for the layer, unless the layer was asked for.
 * @param {Description} description
 * @param {TableColumns} labels
 * @param {number} label
 * @param {string} kind
 * @param {string} wanted
 */
function foundWord({ texts, categories }, labels, label, kind, wanted) {
    if (kind === "category") return categories[labels.category[label]];
    if (kind !== "span") return texts[labels[kind][label]];
    const place = texts[labels.place[label]];
    return place.toLowerCase().includes(wanted) ? place : texts[labels.span[label]];
}

/**
 * Groups found blocks by the word that was found, most bytes at the moment first.
 * @param {Description} description
 * @param {Run} run
 * @param {string} query
 * @param {Uint8Array} found
 * @param {number} moment
 * @returns {{kind: string, text: string, count: number, live: number, first: number}[]} count: blocks of the whole run;
 *   live: bytes at the moment; first: the first block
 */
export function groupFound(description, { labels, blocks, sizes }, query, found, moment) {
    const wanted = query.trim().toLowerCase();
    const groups = new Map();
    const ofLabel = Array.from(found, (word, label) => {
        if (word === 0) return null;
        const kind = foundKind(word);
        const text = foundWord(description, labels, label, kind, wanted);
        const key = `${kind} ${text}`;
        if (!groups.has(key)) groups.set(key, { kind, text, count: 0, live: 0, first: -1 });
        return groups.get(key);
    });
    for (let block = 0; block < blocks.count; block++) {
        const group = ofLabel[blocks.label[block]];
        if (!group) continue;
        if (group.count++ === 0) group.first = block;
        if (blocks.alloc[block] <= moment && blocks.free[block] > moment) group.live += sizes.block[blocks.size[block]];
    }
    return [...groups.values()].filter(({ count }) => count > 0).sort((a, b) => b.live - a.live || b.count - a.count);
}

export class Search {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        this.input = byId("search");
        /** @type {unknown[]} */
        this.shown = [];
        this.input.addEventListener("input", () => scene.set({ query: this.input.value }));
        this.input.addEventListener("keydown", (event) => {
            if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
            else if (event.key === "Escape") {
                scene.set({ query: "" });
                this.input.blur();
            } else return;
            event.preventDefault();
            event.stopPropagation();
        });
    }

    /**
     * Selects the next found block after the selected one. From the last it goes to the first.
     * @param {number} direction
     */
    next(direction) {
        const { scene } = this;
        const run = scene.runs[scene.mapRun];
        const found = scene.found(scene.mapRun);
        if (!found) return;
        const { count, label } = run.blocks;
        let block = scene.selected < 0 && direction < 0 ? count : scene.selected;
        for (let i = 0; i < count; i++) {
            block = (block + direction + count) % count;
            if (found[label[block]] > 0) return scene.reveal(block);
        }
    }

    update() {
        const { scene } = this;
        if (document.activeElement !== this.input && this.input.value !== scene.query) this.input.value = scene.query;
        const found = scene.found(scene.mapRun);
        const moment = scene.moments[scene.mapRun];
        if (this.shown[0] === found && this.shown[1] === moment) return;
        this.shown = [found, moment];
        byId("results").hidden = !found;
        const groups = found ? groupFound(scene.description, scene.runs[scene.mapRun], scene.query, found, moment) : [];
        setText(byId("found"), found ? sumText(groups) : "");
        refill(
            byId("results"),
            groups.slice(0, MOST_RESULTS).map((group) => makeResult(scene, group)),
        );
    }
}

/**
 * Returns "1.20 GiB live, of 640 blocks in 12 groups".
 * @param {FoundGroup[]} groups
 */
function sumText(groups) {
    /** @param {"live" | "count"} name */
    const sum = (name) => groups.reduce((total, group) => total + group[name], 0);
    if (groups.length === 0) return "nothing found";
    return `${sizeText(sum("live"))} live at the pinned moment; ${plural(sum("count"), "block")} in ${plural(groups.length, "group")}`;
}

/**
 * @param {Scene} scene
 * @param {FoundGroup} group
 */
function makeResult(scene, { kind, text, count, live, first }) {
    return make(
        "li",
        {},
        make(
            "button",
            { type: "button", class: "link", "data-key": `${kind} ${text}`, onclick: () => scene.reveal(first) },
            shortText(text) || "–",
        ),
        make("span", { class: "faint" }, ` ${kind}, ${plural(count, "block")}, ${sizeText(live)} live`),
    );
}
