/**
 * The keyboard, and the list of keys that `?` shows. Both use one table.
 *
 * @typedef {[string[], string, string, (scene: Scene) => void]} Key   keys as in events, keys for people, their effect for
 *   people, the function
 */
import { AFTER_ALL, AXIS_KINDS, BEFORE_ALL } from "./axis.js";
import { barBeside, selectedBar } from "./bars.js";
import { copyCommand } from "./copy_command.js";
import { byId, make, setText } from "./dom.js";
import { goToPeak } from "./peak.js";
import { focusSelection, markSelection } from "./selection.js";
import { toggleTheme } from "./theme.js";
import { panAddressBy, panBy, revealX, wholeView, withRange, zoomAt } from "./view.js";

const PAN = 0.15;
const ZOOM = 0.75;

/**
 * @param {Scene} scene
 * @param {number} factor
 */
function zoomMiddle(scene, factor) {
    const middle = scene.pinnedX(scene.mapRun);
    const { x0, x1 } = scene.view;
    scene.set({ view: zoomAt(scene.view, scene.axis, middle > x0 && middle < x1 ? middle : (x0 + x1) / 2, factor) });
}

/** @param {number} part */
const pan = (part) => (/** @type {Scene} */ scene) => scene.set({ view: panBy(scene.view, scene.axis, part) });
/** @param {number} part */
const panAddress = (part) => (/** @type {Scene} */ scene) =>
    scene.set({ view: panAddressBy(scene.view, scene.runs[scene.mapRun].addressBytes, part) });

/**
 * Pins the neighbouring event, in the run of the map.
 * @param {number} by
 */
const step = (by) => (/** @type {Scene} */ scene) => {
    const moments = [...scene.moments];
    const count = scene.runs[scene.mapRun].eventCount;
    const at = moments[scene.mapRun] === AFTER_ALL ? count : moments[scene.mapRun];
    moments[scene.mapRun] = Math.min(count - 1, Math.max(BEFORE_ALL, at + by));
    scene.pin(moments);
    scene.showX(scene.pinnedX(scene.mapRun));
};

/** @param {Scene} scene */
function letGo(scene) {
    scene.set({
        selected: -1,
        bar: null,
        twins: null,
        measured: null,
        isolated: -1,
        hidden: [],
        within: "",
        query: "",
    });
    byId("command").hidden = true;
}

/** @param {Scene} scene */
function nextAxis(scene) {
    scene.setAxis(AXIS_KINDS[(AXIS_KINDS.indexOf(scene.axis.kind) + 1) % AXIS_KINDS.length]);
}

/**
 * Selects the bar that is `along` bars right and `down` rows down, scrolls to it, and announces it.
 * @param {number} along
 * @param {number} down
 */
const goToBar = (along, down) => (/** @type {Scene} */ scene) => {
    const bar = barBeside(scene, along, down);
    if (!bar) return;
    scene.set({ bar: { lane: bar.row.lane, i: bar.i }, view: revealX(scene.view, scene.axis, (bar.x0 + bar.x1) / 2) });
    setText(byId("said"), bar.text);
};

/** @param {Scene} scene */
function zoomToSelectedBar(scene) {
    const bar = selectedBar(scene);
    if (bar) scene.set({ view: withRange(scene.view, scene.axis, bar.x0, bar.x1) });
}

/** @param {Scene} scene */
function zoomToMeasured(scene) {
    if (!scene.measured) return;
    const [x0, x1] = [scene.measured.x0, scene.measured.x1].sort((a, b) => a - b);
    scene.set({ view: withRange(scene.view, scene.axis, x0, x1) });
}

/** @param {Scene} scene */
export function toggleLayers(scene) {
    scene.set({ eachLayer: !scene.eachLayer });
}

/**
 * Keys for the focused bars. They have priority over the others.
 * @type {Key[]}
 */
const BAR_KEYS = [
    [["ArrowLeft"], "Tab ←", "on the bars: the bar before", goToBar(-1, 0)],
    [["ArrowRight"], "Tab →", "on the bars: the bar after", goToBar(1, 0)],
    [["ArrowUp"], "Tab ↑", "on the bars: the bar above", goToBar(0, -1)],
    [["ArrowDown"], "Tab ↓", "on the bars: the bar below", goToBar(0, 1)],
    [["Enter"], "Tab Enter", "on the bars: zoom to the bar", zoomToSelectedBar],
];

/** @type {Key[]} */
const KEYS = [
    [["ArrowLeft", "a"], "← A", "move left", pan(-PAN)],
    [["ArrowRight", "d"], "→ D", "move right", pan(PAN)],
    [["w", "+", "="], "W +", "zoom in", (scene) => zoomMiddle(scene, ZOOM)],
    [["s", "-"], "S −", "zoom out", (scene) => zoomMiddle(scene, 1 / ZOOM)],
    [["ArrowUp"], "↑", "move up in the map", panAddress(PAN)],
    [["ArrowDown"], "↓", "move down in the map", panAddress(-PAN)],
    [
        ["0"],
        "0",
        "show everything",
        (scene) => scene.set({ view: wholeView(scene.axis, scene.runs[scene.mapRun].addressBytes) }),
    ],
    [["f"], "F", "zoom to the selected block, bar or range", focusSelection],
    [["m"], "M", "measure the selected block or bar", markSelection],
    [["z"], "Z", "zoom to the measured range", zoomToMeasured],
    [["p"], "P", "jump to the peak", goToPeak],
    [[","], ",", "the event before", step(-1)],
    [["."], ".", "the event after", step(1)],
    [["x"], "X", "next x axis: time, event number, phases", nextAxis],
    [["b"], "B", "all rows of spans, or one", (scene) => scene.set({ allDepths: !scene.allDepths })],
    [["l"], "L", "modules: alike layers as one, or each", toggleLayers],
    [["/"], "/", "search words of labels; Enter goes to the next block found", () => byId("search").focus()],
    [["c"], "C", "copy as command", copyCommand],
    [["t"], "T", "light or dark", toggleTheme],
    [["Escape"], "Esc", "clear the selection", letGo],
    [["?"], "?", "show this list", () => byId("keys").showModal()],
];
const MOUSE = [
    ["wheel", "zoom at the pointer; beside the charts, scroll"],
    ["Alt wheel", "zoom addresses, over the map"],
    ["drag", "move"],
    ["Shift drag", "measure a range"],
    ["click", "pin a moment; select the block or the bar that is there"],
    ["two fingers", "zoom and move"],
    ["double click", "zoom to a step, phase, span or kernel"],
];

/**
 * True if a list of choices needs the key. Letters are not needed, since such lists are short.
 * @param {string} key
 */
function isKeyOfSelect(key) {
    return key === " " || (key.length > 1 && key !== "Escape");
}

/** @param {Scene} scene */
export function listenToKeys(scene) {
    byId("key-list").replaceChildren(
        ...[...[...KEYS, ...BAR_KEYS].map(([, shown, text]) => [shown, text]), ...MOUSE].flatMap(([keys, text]) => [
            make("dt", {}, ...keys.split(" ").map((key) => make("kbd", {}, key))),
            make("dd", {}, text),
        ]),
    );
    window.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
        const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
        const { target } = event;
        if (target instanceof HTMLInputElement || (target instanceof HTMLSelectElement && isKeyOfSelect(key))) return;
        const inReach = target === byId("bars") ? [...BAR_KEYS, ...KEYS] : KEYS;
        const found = inReach.find(([keys]) => keys.includes(key));
        if (!found) return;
        event.preventDefault();
        found[3](scene);
    });
}
