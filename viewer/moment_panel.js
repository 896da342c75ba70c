/**
 * The part of the side panel about the pinned moment: allocated and reserved bytes, the live blocks summed by a word of
 * their labels, and listed.
 */
import { byId, make, setText, shortText } from "./dom.js";
import { makeGroupKeys, showGroups } from "./group_panel.js";
import { LiveList } from "./live_list.js";
import { allocatedAt, reservedAt, shownBlocks } from "./moment.js";
import { exactBytes, sizeText } from "./numbers.js";
import { describeMoment, momentText, runName } from "./where.js";

/**
 * @param {string} name
 * @param {number[]} values
 */
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

/** @param {Scene} scene */
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

export class MomentPanel {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        this.shown = "";
        this.list = new LiveList(scene);
        makeGroupKeys(scene);
    }

    update() {
        const { scene } = this;
        const key = [
            scene.moments,
            scene.mapRun,
            scene.colorKey,
            scene.isolated,
            scene.query,
            scene.hidden,
            scene.within,
            scene.selected,
            scene.pinnedAtPeak,
            scene.timed,
            scene.groupKey,
            scene.unfolded,
        ].join();
        if (key === this.shown) return;
        this.shown = key;
        const run = scene.runs[scene.mapRun];
        const moment = scene.moments[scene.mapRun];
        setText(byId("moment-title"), `At ${scene.pinnedName}`);
        setText(byId("moment-where"), shortText(momentText(describeMoment(scene.description, run, moment))));
        showSizes(scene);
        showGroups(
            scene,
            scene.runs.map((_, number) => shownBlocks(scene, number, scene.moments[number], scene.chosen(number))),
        );
        this.list.show(shownBlocks(scene, scene.mapRun, moment));
    }
}
