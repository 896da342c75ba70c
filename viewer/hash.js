/**
 * The view in the hash of the URL, so that a link shows the same to its reader. Values that do not fit the page are
 * ignored.
 */
import { AFTER_ALL, AXIS_KINDS } from "./axis.js";
import { COLOR_KEYS } from "./colors.js";
import { GROUP_KEYS } from "./filter.js";
import { allLanes } from "./marks.js";
import { rankOfHash } from "./ranks.js";
import { withAddresses, withRange } from "./view.js";

/**
 * Returns the part after "#".
 * @param {Scene} scene
 */
export function hashOf(scene) {
    const { view, axis } = scene;
    const values = new URLSearchParams({ x: axis.kind, from: String(view.x0), to: String(view.x1) });
    if (scene.rank !== "") values.set("rank", scene.rank);
    const wholeAddresses = Math.max(1, scene.runs[scene.mapRun].addressBytes);
    if (view.low !== 0 || view.high !== wholeAddresses) {
        values.set("low", String(view.low));
        values.set("high", String(view.high));
    }
    if (scene.mapRun > 0) values.set("map", String(scene.mapRun));
    if (!scene.isPinnedAtOpening) values.set("at", scene.moments.join(","));
    if (scene.selected >= 0) values.set("block", String(scene.selected));
    if (scene.bar) {
        const lane = allLanes(scene.runs[scene.mapRun].lanes).indexOf(scene.bar.lane);
        values.set("bar", [lane, scene.bar.i].join());
    }
    if (scene.measured) values.set("range", `${scene.measured.x0},${scene.measured.x1}`);
    if (scene.allDepths) values.set("spans", "all");
    if (scene.colorKey !== COLOR_KEYS[0]) values.set("color", scene.colorKey);
    if (scene.isolated >= 0) values.set("only", scene.colors[scene.isolated].name);
    if (scene.groupKey !== GROUP_KEYS[0]) values.set("by", scene.groupKey);
    if (scene.unfolded) values.set("open", scene.unfolded);
    if (scene.query) values.set("q", scene.query);
    if (scene.within) values.set("in", scene.within);
    if (scene.eachLayer) values.set("layers", "each");
    if (scene.whatIf) values.set("if", scene.whatIf);
    if (scene.card) values.set("card", scene.card);
    for (const word of scene.hidden) values.append("hide", word);
    return values.toString();
}

/**
 * Returns the number in a text; NaN if there is none, also for "".
 * @param {?string} text
 */
function numberOf(text) {
    return text === null || text.trim() === "" ? NaN : Number(text);
}

/**
 * Returns the two ends of a range from 0 to `most`, rounded into it; null if there is no such range.
 * @param {URLSearchParams} values
 * @param {string[]} names
 * @param {number} most
 */
function rangeIn(values, names, most) {
    const [from, to] = names.map((name) => numberOf(values.get(name)));
    return from >= 0 && from < to && from < most ? [from, Math.min(to, most)] : null;
}

/**
 * Returns a position in a list of `count`; -1 if there is no such position.
 * @param {URLSearchParams} values
 * @param {string} name
 * @param {number} count
 */
function placeIn(values, name, count) {
    const place = numberOf(values.get(name));
    return Number.isInteger(place) && place >= 0 && place < count ? place : -1;
}

/**
 * Returns the pinned moments, one a run; null if there are none: then those that a page opens with are.
 * @param {URLSearchParams} values
 * @param {Run[]} runs
 */
function momentsIn(values, runs) {
    const moments = (values.get("at") ?? "").split(",").map(numberOf);
    /**
     * @param {number} at
     * @param {number} i
     */
    const fits = (at, i) => Number.isInteger(at) && at >= AFTER_ALL && at < runs[i].eventCount;
    return moments.length === runs.length && moments.every(fits) ? moments : null;
}

/**
 * Returns the measured range of a hash; null if there is none on the axis.
 * @param {URLSearchParams} values
 * @param {Axis} axis
 */
function measuredIn(values, axis) {
    const [x0, x1] = (values.get("range") ?? "").split(",").map(numberOf);
    /** @param {number} x */
    const isOn = (x) => x >= 0 && x <= axis.length;
    return isOn(x0) && isOn(x1) ? { x0, x1 } : null;
}

/**
 * Returns the bar that a hash names by its lane and its position there; null if there is none.
 * @param {URLSearchParams} values
 * @param {Run} run
 */
function barIn(values, run) {
    const [number, i] = (values.get("bar") ?? "").split(",").map(numberOf);
    const lane = allLanes(run.lanes)[number];
    return lane?.begin[i] === undefined ? null : { lane, i };
}

/**
 * Returns the view of a hash, for the current axis and map of the scene.
 * @param {URLSearchParams} values
 * @param {Scene} scene
 * @param {Run} run
 */
function viewIn(values, scene, run) {
    const { axis, view } = scene;
    const [x0, x1] = rangeIn(values, ["from", "to"], axis.length) ?? [0, axis.length];
    const [low, high] = rangeIn(values, ["low", "high"], run.addressBytes) ?? [0, Math.max(1, run.addressBytes)];
    return withAddresses(withRange(view, axis, x0, x1), run.addressBytes, low, high);
}

/**
 * Sets the scene to the state in a hash. Everything else becomes as in a page that was just opened.
 * @param {Scene} scene
 * @param {string} hash
 */
export function applyHash(scene, hash) {
    const values = new URLSearchParams(hash.replace(/^#/, ""));
    scene.setAxis(AXIS_KINDS.find((kind) => kind === values.get("x")) ?? scene.axis.kind);
    scene.setColorKey(COLOR_KEYS.find((key) => key === values.get("color")) ?? COLOR_KEYS[0]);
    scene.setMapRun(Math.max(0, placeIn(values, "map", scene.runs.length)));
    const run = scene.runs[scene.mapRun];
    scene.pin(momentsIn(values, scene.runs) ?? scene.openingMoments);
    scene.set({
        view: viewIn(values, scene, run),
        selected: placeIn(values, "block", run.blocks.count),
        bar: barIn(values, run),
        measured: measuredIn(values, scene.axis),
        allDepths: values.get("spans") === "all",
        groupKey: GROUP_KEYS.find((key) => key === values.get("by")) ?? GROUP_KEYS[0],
        unfolded: values.get("open") ?? "",
        isolated: scene.colors.findIndex(({ name }) => name === values.get("only")),
        within: values.get("in") ?? "",
        eachLayer: values.get("layers") === "each",
        hidden: values.getAll("hide"),
        query: values.get("q") ?? "",
        whatIf: values.get("if") ?? "",
        card: values.get("card") ?? "",
    });
}

/**
 * Returns a hash without the view: what was chosen.
 * @param {string} hash
 */
function chosenIn(hash) {
    const values = new URLSearchParams(hash);
    for (const name of ["from", "to", "low", "high"]) values.delete(name);
    return values.toString();
}

/** Updates the hash of the page shortly after the last change of the scene. */
export class HashKeeper {
    /** @param {Scene} scene */
    constructor(scene) {
        this.scene = scene;
        this.timer = 0;
        this.isNew = true; // nothing was written yet
        this.written = location.hash.slice(1);
        window.addEventListener("hashchange", () => {
            if (this.leaves()) location.reload();
            else if (this.isStale) {
                this.written = location.hash.slice(1);
                applyHash(scene, location.hash);
            }
        });
    }

    /** True if the address was changed from outside, and its event is about to come. */
    get isStale() {
        return location.hash.slice(1) !== this.written;
    }

    /** True if the address names another rank already: the page is about to show that one. */
    leaves() {
        return rankOfHash(location.hash) !== this.scene.rank;
    }

    update() {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => {
            const hash = hashOf(this.scene);
            if (hash === this.written || this.isStale) return;
            // A step back undoes what was chosen, and not each turn of the wheel.
            if (this.isNew || chosenIn(hash) === chosenIn(this.written)) history.replaceState(null, "", `#${hash}`);
            else history.pushState(null, "", `#${hash}`);
            this.isNew = false;
            this.written = location.hash.slice(1);
        }, 150);
    }
}
