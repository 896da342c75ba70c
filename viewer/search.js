/** The search: finds ops and spans with a text, lists their blocks, and steps from one to the next. */
import { byId, make, setText, shortText } from "./dom.js";
import { plural, sizeText } from "./numbers.js";

const MOST_RESULTS = 40;

/** Returns 1 for each label whose op or span contains the query; null for an empty query. */
export function findLabels(description, run, query) {
    const wanted = query.trim().toLowerCase();
    if (wanted === "") return null;
    const holds = description.texts.map((text) => Number(text.toLowerCase().includes(wanted)));
    const { op, span } = run.labels;
    return Uint8Array.from(op, (_, label) => (label > 0 ? holds[op[label]] | holds[span[label]] : 0));
}

/** Groups the found labels by op and span: [{ text, kind, count, bytes, first }], most bytes first. */
function groupResults(description, run, query, found) {
    const wanted = query.trim().toLowerCase();
    const groups = new Map();
    const { labels, blocks, sizes } = run;
    const add = (kind, text, block) => {
        const key = `${kind} ${text}`;
        const group = groups.get(key) ?? { kind, text: description.texts[text], count: 0, bytes: 0, first: block };
        if (group.count === 0) groups.set(key, group);
        group.count++;
        group.bytes = Math.max(group.bytes, sizes.block[blocks.size[block]]);
    };
    const holds = (text) => description.texts[text].toLowerCase().includes(wanted);
    const opHolds = labels.op.map ? Array.from(labels.op, holds) : [];
    for (let block = 0; block < blocks.count; block++) {
        const label = blocks.label[block];
        if (!found[label]) continue;
        if (opHolds[label]) add("op", labels.op[label], block);
        else add("span", labels.span[label], block);
    }
    return [...groups.values()].sort((a, b) => b.bytes - a.bytes || b.count - a.count);
}

export class Search {
    constructor(scene) {
        this.scene = scene;
        this.input = byId("search");
        this.shown = null;
        this.input.addEventListener("input", () => scene.search(this.input.value));
        this.input.addEventListener("keydown", (event) => {
            if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
            else if (event.key === "Escape") {
                scene.search("");
                this.input.blur();
            } else return;
            event.preventDefault();
            event.stopPropagation();
        });
    }

    /** Selects the next found block after the selected one. From the last it goes to the first. */
    next(direction) {
        const { scene } = this;
        const run = scene.runs[scene.mapRun];
        if (!scene.found) return;
        const { count, label } = run.blocks;
        let block = scene.selected < 0 && direction < 0 ? count : scene.selected;
        for (let i = 0; i < count; i++) {
            block = (block + direction + count) % count;
            if (scene.found[label[block]]) return scene.reveal(block);
        }
    }

    update() {
        const { scene } = this;
        if (document.activeElement !== this.input && this.input.value !== scene.query) this.input.value = scene.query;
        if (this.shown === scene.found) return;
        this.shown = scene.found;
        const list = byId("results");
        list.hidden = !scene.found;
        if (!scene.found) {
            setText(byId("found"), "");
            list.replaceChildren();
            return;
        }
        const run = scene.runs[scene.mapRun];
        const groups = groupResults(scene.description, run, scene.query, scene.found);
        const blocks = groups.reduce((sum, { count }) => sum + count, 0);
        setText(
            byId("found"),
            blocks === 0
                ? "nothing found"
                : `${plural(blocks, "block")} of ${plural(groups.length, "op or span")}`.replace(
                      "op or spans",
                      "ops and spans",
                  ),
        );
        list.replaceChildren(
            ...groups
                .slice(0, MOST_RESULTS)
                .map(({ kind, text, count, bytes, first }) =>
                    make(
                        "li",
                        {},
                        make(
                            "button",
                            { type: "button", class: "link", onclick: () => scene.reveal(first) },
                            shortText(text) || "–",
                        ),
                        make(
                            "span",
                            { class: "faint" },
                            ` ${kind}, ${plural(count, "block")}, up to ${sizeText(bytes)}`,
                        ),
                    ),
                ),
        );
    }
}
