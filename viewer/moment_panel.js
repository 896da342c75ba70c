/**
 * The part of the side panel about the pinned moment: allocated and reserved bytes, the live blocks summed by a word of
 * their labels, and one by one, largest first.
 * It is a table, so that people who can't see the charts can read it.
 */
import { byId, make, setText, shortText } from "./dom.js";
import { makeGroupKeys, showGroups } from "./group_panel.js";
import { allocatedAt, liveBlocks, reservedAt } from "./moment.js";
import { exactBytes, plural, sizeText } from "./numbers.js";
import { describeMoment, momentText, runName } from "./where.js";

const ROWS = 60;
const PRINTED_ROWS = 20; // as in page.css

function sizeRow(name, values) {
    return make(
        "tr",
        {},
        make("th", { scope: "row" }, name),
        ...values.map((bytes) =>
            make("td", { title: exactBytes(bytes), "data-bytes": String(bytes) }, sizeText(bytes)),
        ),
    );
}

function showSizes(scene) {
    const allocated = scene.runs.map((_, number) => allocatedAt(scene, number, scene.moments[number]));
    const reserved = scene.runs.map((run, number) => reservedAt(run, scene.moments[number]));
    const head =
        scene.runs.length > 1
            ? [
                  make(
                      "tr",
                      {},
                      make("td", {}),
                      ...scene.runs.map((run) => make("th", { scope: "col" }, shortText(runName(run.info)))),
                  ),
              ]
            : [];
    byId("moment-sizes").replaceChildren(
        ...head,
        sizeRow("allocated", allocated),
        sizeRow("reserved", reserved),
        sizeRow(
            "cached",
            reserved.map((bytes, i) => bytes - allocated[i]),
        ),
    );
}

function liveRow(scene, run, block) {
    const { texts } = scene.description;
    const { labels, blocks, sizes } = run;
    const label = blocks.label[block];
    const color = scene.colors[labels.category[label]];
    const dot = make("span", { class: "dot" });
    dot.style.background = color.css;
    const select = make(
        "button",
        { type: "button", class: "link", onclick: () => scene.set({ selected: block }) },
        shortText(texts[labels.op[label]] || "block"),
    );
    return make(
        "tr",
        scene.selected === block ? { "aria-current": "true" } : {},
        make("td", { title: exactBytes(sizes.block[blocks.size[block]]) }, sizeText(sizes.block[blocks.size[block]])),
        make("td", {}, dot, shortText(color.name)),
        make(
            "td",
            { title: texts[labels.span[label]].slice(0, 2000) },
            select,
            make("span", { class: "faint" }, ` ${shortText(texts[labels.span[label]])}`),
        ),
    );
}

/** Returns the text about the blocks without a row. */
function restText(run, rest) {
    const bytes = rest.reduce((sum, block) => sum + run.sizes.block[run.blocks.size[block]], 0);
    return rest.length > 0 ? `and ${plural(rest.length, "smaller one")}, ${sizeText(bytes)} together` : "";
}

export class MomentPanel {
    constructor(scene) {
        this.scene = scene;
        this.shown = "";
        makeGroupKeys(scene);
    }

    update() {
        const { scene } = this;
        const key = [
            scene.moments,
            scene.mapRun,
            scene.isolated,
            scene.selected,
            scene.pinnedAtPeak,
            scene.timed,
            scene.groupKey,
        ].join();
        if (key === this.shown) return;
        this.shown = key;
        const run = scene.runs[scene.mapRun];
        const moment = scene.moments[scene.mapRun];
        setText(byId("moment-title"), scene.pinnedAtPeak ? "At the peak" : "At the cursor");
        setText(byId("moment-where"), shortText(momentText(describeMoment(scene.description, run, moment))));
        showSizes(scene);
        const all = scene.runs.map((_, number) => liveBlocks(scene, number, scene.moments[number]));
        showGroups(scene, all);
        const live = all[scene.mapRun];
        const of = scene.isolated < 0 ? "" : ` of ${scene.colors[scene.isolated].name}`;
        setText(byId("live-title"), `${plural(live.length, "block")}${of} live, largest first`);
        byId("live").replaceChildren(...live.slice(0, ROWS).map((block) => liveRow(scene, run, block)));
        setText(byId("live-rest"), restText(run, live.slice(ROWS)));
        setText(byId("live-rest-printed"), restText(run, live.slice(PRINTED_ROWS)));
    }
}
