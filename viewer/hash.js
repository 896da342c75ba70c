/** The view in the URL's hash, so that a link shows what its sender saw. Whatever does not fit the page is left out. */
import { AXIS_KINDS } from "./axis.js";
import { allLanes } from "./marks.js";

const exact = (number) => String(Number(number.toPrecision(12)));

/** The part after "#". */
export function hashOf(scene) {
    const { view, axis } = scene;
    const values = new URLSearchParams({ x: axis.kind, from: exact(view.x0), to: exact(view.x1) });
    const wholeAddresses = Math.max(1, scene.runs[scene.mapRun].addressBytes);
    if (view.low !== 0 || view.high !== wholeAddresses) {
        values.set("low", exact(view.low));
        values.set("high", exact(view.high));
    }
    if (scene.mapRun > 0) values.set("map", String(scene.mapRun));
    if (!scene.pinnedAtPeak) values.set("at", scene.moments.join(","));
    if (scene.selected >= 0) values.set("block", String(scene.selected));
    if (scene.bar) {
        const lane = allLanes(scene.runs[scene.mapRun].lanes).indexOf(scene.bar.lane);
        values.set("bar", [lane, scene.bar.i].join());
    }
    if (scene.allDepths) values.set("spans", "all");
    if (scene.isolated >= 0) values.set("only", scene.colors[scene.isolated].name);
    if (scene.query) values.set("q", scene.query);
    return values.toString();
}

function numberIn(values, name, least, most) {
    const number = values.has(name) ? Number(values.get(name)) : NaN;
    return number >= least && number <= most ? number : undefined;
}

/** The bar that a hash names by its lane and its place in it; null: none that there is. */
function barIn(values, run) {
    const [number, i] = (values.get("bar") ?? "").split(",").map(Number);
    const lane = allLanes(run.lanes)[number];
    return lane?.begin[i] === undefined ? null : { lane, i };
}

/** Brings the scene to what a hash says. */
export function applyHash(scene, hash) {
    const values = new URLSearchParams(hash.replace(/^#/, ""));
    if (AXIS_KINDS.includes(values.get("x"))) scene.setAxis(values.get("x"));
    const changes = {};
    changes.mapRun = numberIn(values, "map", 0, scene.runs.length - 1) ?? scene.mapRun;
    const run = scene.runs[Math.floor(changes.mapRun)];
    const view = { ...scene.view };
    const from = numberIn(values, "from", 0, scene.axis.length);
    const to = numberIn(values, "to", 0, scene.axis.length);
    if (from < to) Object.assign(view, { x0: from, x1: to });
    const low = numberIn(values, "low", 0, run.addressBytes);
    const high = numberIn(values, "high", 0, run.addressBytes);
    Object.assign(view, low < high ? { low, high } : { low: 0, high: Math.max(1, run.addressBytes) });
    const moments = (values.get("at") ?? "").split(",").map(Number);
    if (
        moments.length === scene.runs.length &&
        moments.every((at, i) => at >= -1 && at < scene.runs[i].eventCount) &&
        values.has("at")
    )
        Object.assign(changes, { moments, pinnedAtPeak: false });
    changes.selected = Math.floor(numberIn(values, "block", 0, run.blocks.count - 1) ?? -1);
    changes.bar = barIn(values, run);
    changes.allDepths = values.get("spans") === "all";
    changes.isolated = scene.colors.findIndex(({ name }) => name === values.get("only"));
    scene.set({ ...changes, view });
    scene.search(values.get("q") ?? "");
}

/** Keeps the hash of the page what the scene is, a moment after it comes to rest. */
export class HashKeeper {
    constructor(scene) {
        this.scene = scene;
        this.timer = 0;
        this.written = "";
        window.addEventListener("hashchange", () => {
            if (location.hash.slice(1) !== this.written) applyHash(scene, location.hash);
        });
    }

    update() {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => {
            const hash = hashOf(this.scene);
            if (hash === this.written) return;
            this.written = hash;
            history.replaceState(null, "", `#${hash}`);
        }, 150);
    }
}
