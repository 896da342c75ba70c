/**
 * The live blocks at the pinned moment: alike ones in one row, which unfolds to each of them, the row with most bytes first. It is a table, so
 * that people who can't see the map can read it, and reach every block.
 */
import { groupAlikeBlocks } from "./alike.js";
import { opOrRoleText } from "./block_words.js";
import { byId, make, refill, setText, shortText } from "./dom.js";
import { countText, exactBytes, plural, sizeText } from "./numbers.js";

const ROWS = 40; // so many kinds more each time
const PRINTED_ROWS = 8;
const MEMBERS = 50; // so many blocks of a kind

/**
 * Returns "and 12 smaller kinds, 1,917 blocks, 2.10 GiB together".
 * @param {AlikeGroup[]} rest
 */
function restText(rest) {
    const blocks = rest.reduce((sum, group) => sum + group.blocks.length, 0);
    const bytes = rest.reduce((sum, group) => sum + group.bytes * group.blocks.length, 0);
    return rest.length > 0
        ? `and ${plural(rest.length, "smaller kind")}, ${plural(blocks, "block")}, ${sizeText(bytes)} together`
        : "";
}

/**
 * Makes a row below an unfolded group.
 * @param {Attributes} attributes
 * @param {Node | string} content
 */
function memberRow(attributes, content) {
    return make("tr", { class: "member on-screen", ...attributes }, make("td", { colspan: "3" }, content));
}

export class LiveList {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        this.rows = ROWS; // kinds that are listed at most
        this.members = MEMBERS; // blocks of the unfolded kind
        this.unfolded = scene.unfolded;
        /** @type {number[]} */
        this.live = []; // what is shown
        byId("more-kinds").addEventListener("click", () => {
            this.rows += ROWS;
            this.show(this.live);
        });
    }

    /**
     * Shows blocks of the map's run, which are largest first.
     * @param {number[]} live
     */
    show(live) {
        const { scene } = this;
        if (scene.unfolded !== this.unfolded) this.members = MEMBERS;
        this.unfolded = scene.unfolded;
        this.live = live;
        const groups = groupAlikeBlocks(scene.runs[scene.mapRun], scene.alike(scene.mapRun), live);
        const of = scene.isolated < 0 ? "" : ` of ${scene.colors[scene.isolated].name}`;
        const shown = scene.isFiltered && scene.isolated < 0 ? "shown and " : "";
        setText(byId("live-key"), scene.colorKey);
        setText(byId("live-title"), `${plural(live.length, "block")}${of} ${shown}live, largest first`);
        refill(
            byId("live"),
            groups.slice(0, this.rows).flatMap((group, i) => this.makeRows(group, i < PRINTED_ROWS ? "" : "on-screen")),
        );
        setText(byId("live-rest"), restText(groups.slice(this.rows)));
        byId("more-kinds").hidden = groups.length <= this.rows;
        setText(byId("live-rest-printed"), restText(groups.slice(PRINTED_ROWS)));
    }

    /**
     * @param {AlikeGroup} group
     * @param {string} medium
     */
    makeRows(group, medium) {
        const { blocks, key } = group;
        const isOpen = blocks.length > 1 && this.scene.unfolded === key;
        const rows = [this.makeGroup(group, isOpen, medium)];
        if (!isOpen) return rows;
        rows.push(...blocks.slice(0, this.members).map((block) => this.makeMember(block)));
        if (blocks.length > this.members) rows.push(this.makeMore(blocks.length - this.members));
        return rows;
    }

    /**
     * @param {AlikeGroup} group
     * @param {boolean} isOpen
     * @param {string} medium
     */
    makeGroup({ key, bytes, blocks }, isOpen, medium) {
        const { scene } = this;
        const { labels, blocks: all } = scene.runs[scene.mapRun];
        const { texts } = scene.description;
        const [block] = blocks;
        const label = all.label[block];
        const many = blocks.length > 1;
        const color = scene.colors[labels.color[label]];
        const dot = make("span", { class: "dot" });
        dot.style.background = color.css;
        const place = texts[many ? labels.place[label] : labels.span[label]];
        return make(
            "tr",
            { class: `group ${medium}`, "aria-current": !many && scene.selected === block ? "true" : undefined },
            make(
                "td",
                { title: many ? `${exactBytes(bytes)} each` : exactBytes(bytes) },
                sizeText(bytes * blocks.length),
                many ? make("span", { class: "each" }, `${countText(blocks.length)} × ${sizeText(bytes)}`) : "",
            ),
            make("td", {}, dot, shortText(color.name)),
            make(
                "td",
                { title: place.slice(0, 2000) },
                make(
                    "button",
                    {
                        type: "button",
                        class: many ? "link fold" : "link",
                        "data-key": `group ${key}`,
                        "aria-expanded": many ? String(isOpen) : undefined,
                        onclick: () => scene.set(many ? { unfolded: isOpen ? "" : key } : { selected: block }),
                    },
                    shortText(opOrRoleText(scene.description, labels, label)),
                ),
                make("span", { class: "faint" }, ` ${shortText(place)}`),
            ),
        );
    }

    /**
     * Makes the row that lists more blocks of the unfolded kind.
     * @param {number} count   that are left
     */
    makeMore(count) {
        const onclick = () => {
            this.members += MEMBERS;
            this.show(this.live);
        };
        const attributes = { type: "button", class: "link", "data-key": "more", onclick };
        return memberRow({}, make("button", attributes, `and ${countText(count)} more`));
    }

    /** @param {number} block */
    makeMember(block) {
        const { scene } = this;
        const { labels, blocks } = scene.runs[scene.mapRun];
        const label = blocks.label[block];
        const span = scene.description.texts[labels.span[label]];
        return memberRow(
            { "aria-current": scene.selected === block ? "true" : undefined },
            make(
                "button",
                {
                    type: "button",
                    class: "link",
                    "data-key": `block ${block}`,
                    onclick: () => scene.set({ selected: block }),
                },
                shortText(span || opOrRoleText(scene.description, labels, label)),
            ),
        );
    }
}
