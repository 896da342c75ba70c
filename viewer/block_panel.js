/** The other part of the side panel: the facts about the selected block, and its twins. */
import { opText, tensorText } from "./block_words.js";
import { byId, make, refill, setText, shortText } from "./dom.js";
import { countText, exactBytes, plural, sizeText, timeText } from "./numbers.js";
import { showStack } from "./stack.js";
import { blockText, describeMoment, listText, placeText } from "./where.js";

/**
 * Returns the labels that differ from `label` by the layer alone: 1 by label.
 * @param {Uint32Array} alike
 * @param {number} label
 */
function twinLabels(alike, label) {
    return Uint8Array.from(alike, (first) => Number(first === alike[label]));
}

/**
 * Returns the blocks that are alike, in order of allocation.
 * @param {Run} run
 * @param {Uint32Array} alike
 * @param {number} block
 */
export function twinsOf(run, alike, block) {
    const { blocks } = run;
    const own = alike[blocks.label[block]];
    const twins = [];
    for (let i = 0; i < blocks.count; i++)
        if (blocks.size[i] === blocks.size[block] && alike[blocks.label[i]] === own) twins.push(i);
    return twins;
}

/**
 * Returns the highest number of `twins` that were live at the same time. They are in order of allocation.
 * @param {Run} run
 * @param {number[]} twins
 */
function mostAtOnce(run, twins) {
    const frees = Uint32Array.from(twins, (block) => run.blocks.free[block]).sort();
    let freed = 0;
    let most = 0;
    twins.forEach((block, i) => {
        while (frees[freed] < run.blocks.alloc[block]) freed++;
        most = Math.max(most, i + 1 - freed);
    });
    return most;
}

/**
 * @param {string} name
 * @param {...(Node | string)} value
 */
function pair(name, ...value) {
    return [make("dt", {}, name), make("dd", {}, ...value)];
}

/**
 * @param {Scene} scene
 * @param {Run} run
 * @param {number} block
 */
function lifeText(scene, run, block) {
    const { alloc, free } = run.blocks;
    const ended = free[block] < run.eventCount;
    const life = timeText(run.time[free[block]] - run.time[alloc[block]]);
    return ended ? `${life}, ${plural(free[block] - alloc[block], "event")}` : `${life}, to the end of the run`;
}

/**
 * @param {Scene} scene
 * @param {Run} run
 * @param {number} block
 */
function freeText(scene, run, block) {
    const event = run.blocks.free[block];
    if (event === run.eventCount) return "not in this run";
    const { time, ...place } = describeMoment(scene.description, run, event);
    return listText(time, placeText(place));
}

/**
 * @param {Scene} scene
 * @param {Run} run
 * @param {number} block
 */
function useTexts(scene, run, block) {
    const uses = scene.uses[scene.mapRun];
    if (!uses || !(uses.flags[block] & 1)) return [];
    const { alloc, free } = run.blocks;
    const count = `${plural(uses.reads[block], "read")}, ${plural(uses.writes[block], "write")}`;
    if (uses.reads[block] + uses.writes[block] === 0) return pair("used", "never");
    const first = alloc[block] + uses.first[block];
    const last = first + uses.last[block];
    const out = pair("used", uses.flags[block] & 2 ? `${count}; the last write was never read` : count);
    const after = free[block] < run.eventCount ? run.time[free[block]] - run.time[last] : 0;
    out.push(
        ...pair("last use", `${timeText(run.time[last])}${after > 0 ? `, ${timeText(after)} before its free` : ""}`),
    );
    if (uses.idle[block] > 0) {
        const from = first + uses.idle_from[block];
        out.push(
            ...pair(
                "longest pause",
                `${timeText(run.time[from + uses.idle[block]] - run.time[from])}, ${plural(uses.idle[block], "event")}`,
            ),
        );
    }
    if (uses.source[block] > 0) out.push(...pair("copy of", blockLink(scene, block - uses.source[block])));
    return out;
}

/**
 * @param {Scene} scene
 * @param {number} block
 */
function blockLink(scene, block) {
    const run = scene.runs[scene.mapRun];
    const { texts } = scene.description;
    const label = run.blocks.label[block];
    const name = shortText(texts[run.labels.span[label]] || texts[run.labels.op[label]]);
    const onclick = () => scene.reveal(block);
    const attributes = {
        type: "button",
        class: "link",
        "data-key": `block ${block}`,
        "aria-current": block === scene.selected ? "true" : undefined,
        onclick,
    };
    return make("button", attributes, `${name} at ${timeText(run.time[run.blocks.alloc[block]])}`);
}

/**
 * Returns the path of a span: "model › layers › 7 › ffn › w1".
 * @param {string} path
 */
function chainText(path) {
    return shortText(path.split(".").join(" › ")) || "–";
}

/**
 * @param {Scene} scene
 * @param {Run} run
 * @param {number} block
 */
function facts(scene, run, block) {
    const { texts, categories } = scene.description;
    const { labels, blocks, sizes, segments } = run;
    const label = blocks.label[block];
    /** @param {string} name */
    const text = (name) => shortText(texts[labels[name][label]]) || "–";
    const requested = sizes.requested[blocks.size[block]];
    const bytes = sizes.block[blocks.size[block]];
    const segment = blocks.segment[block];
    const allocated = describeMoment(scene.description, run, blocks.alloc[block]);
    const address = segments.address[segment] + blocks.low[block] - segments.low[segment];
    return [
        ...pair("role", text("role")),
        ...pair("category", shortText(categories[labels.category[label]])),
        ...pair("op", shortText(opText(scene.description, labels, label))),
        ...pair("called by", chainText(texts[labels.span[label]])),
        ...pair("dtype, shape", tensorText(scene.description, labels, label) || "unknown"),
        ...pair("requested", `${sizeText(requested)} (${exactBytes(requested)})`),
        ...pair("block", `${sizeText(bytes)} (${exactBytes(bytes)})`),
        ...pair("allocated", listText(allocated.time, placeText(allocated), allocated.event)),
        ...pair("freed", freeText(scene, run, block)),
        ...pair("lived for", lifeText(scene, run, block)),
        ...useTexts(scene, run, block),
        ...pair("in the map", `from ${sizeText(blocks.low[block])} on`),
        ...pair("address", `0x${address.toString(16)}, in segment ${segment} of ${sizeText(segments.bytes[segment])}`),
    ];
}

const TWIN_LINKS = 8;

/**
 * @param {Scene} scene
 * @param {Run} run
 * @param {number} block
 */
function showTwins(scene, run, block) {
    const twins = twinsOf(run, scene.alike(scene.mapRun), block);
    const most = mostAtOnce(run, twins);
    const bytes = run.sizes.block[run.blocks.size[block]];
    setText(
        byId("twins-text"),
        twins.length === 1
            ? "There are no similar blocks."
            : `${countText(twins.length)} blocks differ by the layer alone; at most ${countText(most)} of them live at ` +
                  `once, ${sizeText(most * bytes)}.`,
    );
    const at = twins.indexOf(block);
    const first = Math.max(0, Math.min(at - TWIN_LINKS / 2, twins.length - TWIN_LINKS));
    refill(
        byId("twins"),
        twins.slice(first, first + TWIN_LINKS).map((twin) => make("li", {}, blockLink(scene, twin))),
    );
    byId("show-twins").hidden = twins.length === 1;
    byId("show-twins").setAttribute("aria-pressed", String(scene.twins !== null));
}

export class BlockPanel {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        this.shown = "";
        this.told = -1; // the block that was announced
        byId("show-twins").addEventListener("click", () => {
            const run = scene.runs[scene.mapRun];
            scene.set({
                twins: scene.twins ? null : twinLabels(scene.alike(scene.mapRun), run.blocks.label[scene.selected]),
            });
        });
        byId("close-block").addEventListener("click", () => scene.set({ selected: -1, twins: null }));
    }

    update() {
        const { scene } = this;
        const key = [
            scene.selected,
            scene.mapRun,
            scene.uses[scene.mapRun] !== null,
            scene.stacks[scene.mapRun] !== null,
            scene.twins !== null,
            scene.timed,
        ].join();
        if (key === this.shown) return;
        this.shown = key;
        byId("block").hidden = scene.selected < 0;
        if (scene.selected < 0) return;
        const run = scene.runs[scene.mapRun];
        if (this.told !== scene.selected) setText(byId("said"), blockText(scene.description, run, scene.selected));
        this.told = scene.selected;
        refill(byId("block-facts"), facts(scene, run, scene.selected));
        showStack(scene, scene.selected);
        showTwins(scene, run, scene.selected);
    }
}
