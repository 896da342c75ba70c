/**
 * The modules at the pinned moment, or at the cursor while it is over an area: each as wide as its live bytes, with what it is made of below. A click shows a module
 * alone in all charts. Of two runs, widths are those of the one that has more, and colours tell by how much it changed.
 *
 * @typedef {import("./module_tree.js").ModuleNode} ModuleNode
 * @typedef {{node: ModuleNode, level: number, left: number, part: number}} LaidNode   left and part of the whole
 */
import { byId, make, refill, setText, shortText } from "./dom.js";
import { makeModuleTree } from "./module_tree.js";
import { shownBlocks } from "./moment.js";
import { changeText, exactBytes, percentText, sizeText } from "./numbers.js";

const LEAST_PART = 1 / 400; // of the whole: narrower nodes are left out
const MOST_LEVELS = 6;
const ROW = 24; // pixels, as in page.css; a narrower module is no button

/**
 * Returns the nodes that are wide enough: [{ node, level, left, part }], left and part of the whole.
 * @param {ModuleNode} root
 */
export function layOut(root) {
    /** @param {ModuleNode} node */
    const most = ({ bytes }) => Math.max(...bytes);
    const whole = most(root);
    /** @type {LaidNode[]} */
    const out = [];
    /**
     * @param {ModuleNode} node
     * @param {number} level
     * @param {number} left
     */
    const visit = (node, level, left) => {
        for (const child of node.children) {
            const part = most(child) / whole;
            if (part >= LEAST_PART && level < MOST_LEVELS) {
                out.push({ node: child, level, left, part });
                visit(child, level + 1, left);
            }
            left += part;
        }
    };
    if (whole > 0) visit(root, 0, 0);
    return out;
}

/**
 * Returns the colour of a node: of an op its role's or category's; of two runs that of its change.
 * @param {Scene} scene
 * @param {ModuleNode} node
 */
function colorOf(scene, { isOp, bytes, color }) {
    if (bytes.length > 1) {
        const change = (bytes[1] - bytes[0]) / Math.max(bytes[0], bytes[1], 1);
        const name = change > 0 ? "var(--more)" : "var(--less)";
        return {
            background: `color-mix(in srgb, ${name} ${Math.round(Math.abs(change) * 100)}%, var(--bar))`,
            text: "",
        };
    }
    const own = scene.colors[color];
    return isOp && own ? { background: own.css, text: own.text } : { background: "", text: "" };
}

/**
 * @param {ModuleNode} node
 * @param {number} whole
 */
function textOf({ name, path, isOp, bytes }, whole) {
    const change = bytes.length > 1 ? `, ${changeText(bytes[1] - bytes[0])} in the second run` : "";
    const where = isOp ? `${name} in ${path || "no module"}` : path || name;
    return `${where}: ${sizeText(bytes[0])} (${exactBytes(bytes[0])}), ${percentText(bytes[0], whole)}${change}`;
}

export class Icicle {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        /** @type {unknown[]} */
        this.from = [];
    }

    update() {
        const { scene } = this;
        const moments = scene.cursorMoments;
        const isPinned = moments.every((moment, number) => moment === scene.moments[number]);
        const from = [
            moments.join(),
            isPinned,
            scene.pinnedAtPeak,
            scene.mapRun,
            scene.timed,
            scene.theme,
            scene.colors,
            scene.eachLayer,
            byId("icicle").clientWidth,
            ...scene.runs.map((_, i) => scene.mask(i)),
        ];
        if (from.length === this.from.length && from.every((each, i) => each === this.from[i])) return;
        this.from = from;
        const live = scene.runs.map((_, number) => shownBlocks(scene, number, moments[number]));
        const root = makeModuleTree(scene.description, scene.runs, live, scene.eachLayer);
        const nodes = layOut(root);
        const levels = Math.max(0, ...nodes.map(({ level }) => level + 1));
        const pinned = scene.pinnedName;
        setText(
            byId("icicle-title"),
            `At ${isPinned ? pinned : "the cursor"}, by module and op${scene.within ? `: ${shortText(scene.within)}` : ""}`,
        );
        byId("icicle").style.height = `${levels * ROW}px`;
        refill(
            byId("icicle"),
            nodes.map((each) => this.makeNode(each, root.bytes[0])),
        );
        byId("leave-module").hidden = scene.within === "";
        byId("each-layer").setAttribute("aria-pressed", String(scene.eachLayer));
    }

    /**
     * @param {LaidNode} laid
     * @param {number} whole
     */
    makeNode({ node, level, left, part }, whole) {
        const { scene } = this;
        const { background, text } = colorOf(scene, node);
        const isButton = !node.isOp && part * byId("icicle").clientWidth >= ROW;
        const button = {
            type: "button",
            "data-key": `${level} ${node.path}`,
            onclick: () => scene.set({ within: scene.within === node.path ? "" : node.path }),
        };
        const cell = make(
            isButton ? "button" : "span",
            { class: node.isOp ? "op" : undefined, title: textOf(node, whole), ...(isButton ? button : {}) },
            shortText(node.name),
        );
        Object.assign(cell.style, {
            left: `${left * 100}%`,
            width: `${part * 100}%`,
            top: `${level * ROW}px`,
            background,
            color: text,
        });
        return cell;
    }
}
