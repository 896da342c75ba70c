/**
 * Drawing: the canvases, their contents, and then the side panel. All changes between two frames are drawn once.
 *
 * @typedef {{minimap: Plot, bars: Plot, areas: Plot[], difference: ?Plot, map: Plot}} Plots   difference: of two runs
 */
import { drawArea } from "./area.js";
import { AllocatorStrip } from "./allocator_strip.js";
import { BarPanel } from "./bar_panel.js";
import { barsHeight, drawBars, FEW_DEPTHS } from "./bars.js";
import { Causes } from "./causes.js";
import { BlockPanel } from "./block_panel.js";
import { drawDifference } from "./difference.js";
import { forgetCommand } from "./copy_command.js";
import { peakOfChange } from "./answers.js";
import { byId, make, setText, shortText, tellDuration } from "./dom.js";
import { HashKeeper } from "./hash.js";
import { Icicle } from "./icicle.js";
import { Legend } from "./legend.js";
import { AddressMap } from "./map.js";
import { MeasuredBox } from "./measured_box.js";
import { Minimap } from "./minimap.js";
import { MomentPanel } from "./moment_panel.js";
import { sizeText } from "./numbers.js";
import { Overlay } from "./overlay.js";
import { Plot } from "./plot.js";
import { Search } from "./search.js";
import { WhatIf } from "./what_if.js";
import { runName } from "./where.js";

/**
 * Makes the canvases: a minimap, bars, an area for each run, the difference of two runs, and the map.
 * @param {Scene} scene
 * @returns {Plots}
 */
export function makePlots(scene) {
    const areas = scene.runs.map((run, number) =>
        make("canvas", {
            "data-chart": "area",
            "data-run": String(number),
            role: "img",
            id: `area-${number}`,
            "aria-label": `Allocated bytes by role or category over time, ${runName(run.info).slice(0, 100)}`,
        }),
    );
    const titles = scene.runs.map((_, number) => make("h2", { class: "chart-title", id: `area-title-${number}` }));
    const children = areas.flatMap((canvas, i) => [titles[i], canvas]);
    let difference = null;
    if (scene.runs.length > 1) {
        const [first, second] = scene.runs.map(({ info }) => shortText(runName(info)));
        const canvas = make("canvas", {
            "data-chart": "difference",
            role: "img",
            id: "difference",
            "aria-label": "Difference by role or category",
        });
        children.push(make("h2", { class: "chart-title" }, `Difference: ${second} minus ${first}`), canvas);
        difference = new Plot(canvas);
    }
    byId("areas").replaceChildren(...children);
    return {
        minimap: new Plot(byId("minimap")),
        bars: new Plot(byId("bars")),
        areas: areas.map((canvas) => new Plot(canvas)),
        difference,
        map: new Plot(byId("map")),
    };
}

/** Draws everything, at most once a frame. */
export class Painter {
    /**
     * @param {Scene} scene
     * @param {Plots} plots
     */
    constructor(scene, plots) {
        this.scene = scene;
        this.plots = plots;
        /** @type {AreaColumns[]} */
        this.columns = []; // of each area, as they were last drawn (area_raster.js)
        this.beforeOverlay = () => {}; // updates what is under the pointer
        this.page = byId("page");
        this.waiting = false; // a frame is asked for
        this.following = false; // the same, of what follows the pointer
        /** @type {unknown[]} */
        this.fitted = []; // mapRun, allDepths and isWide when the canvases were last resized
        this.minimap = new Minimap(this.plots.minimap);
        this.map = new AddressMap(this.plots.map);
        this.overlay = new Overlay(byId("overlay"), byId("charts"), plots);
        this.icicle = new Icicle(scene);
        this.panels = [
            new WhatIf(scene),
            new Causes(scene),
            new MomentPanel(scene),
            new BlockPanel(scene),
            new BarPanel(scene),
            new Legend(byId("legend"), scene),
            new AllocatorStrip(scene),
            this.icicle,
            new Search(scene),
            new MeasuredBox(scene, plots),
            new HashKeeper(scene),
        ];
    }

    /** Draws in the next frame, once for any number of calls. */
    later() {
        if (this.waiting) return;
        this.waiting = true;
        requestAnimationFrame(() => {
            this.waiting = false;
            this.draw();
        });
    }

    /** Draws what follows the pointer: the overlay now, the modules in the next frame. */
    followPointer() {
        this.overlay.draw(this.scene);
        if (this.following) return;
        this.following = true;
        requestAnimationFrame(() => {
            this.following = false;
            this.icicle.update();
        });
    }

    /** Resizes the canvases. The first call comes without any change. */
    resized() {
        const { width, height } = byId("overlay").getBoundingClientRect();
        if (width === this.overlay.width && height === this.overlay.height) return;
        this.refit();
    }

    refit() {
        this.fitted = [];
        this.later();
    }

    fit() {
        const { scene } = this;
        this.nameRun();
        this.plots.bars.canvas.style.height = `${barsHeight(scene.barRows)}px`;
        byId("minimap").hidden = scene.isWide;
        const { areas, difference, minimap, bars, map } = this.plots;
        for (const plot of [...areas, difference, minimap, bars, map]) plot?.fit();
        this.overlay.fit(map.width);
    }

    /** Returns "; room on the card: 139.21 GiB, above the chart" if the line of its room is not drawn. */
    capacityText() {
        const { capacity, card, areaTop, runs } = this.scene;
        return runs.length === 1 && capacity > areaTop
            ? `; room on ${card || "the card"}: ${sizeText(capacity)}, above the chart`
            : "";
    }

    /** Returns "; blue: reserved with half the micro-batch, at most 9.31 GiB" if a change is drawn. */
    changeText() {
        const { change } = this.scene;
        return change
            ? `; blue: reserved with ${shortText(change.change)}, at most ${sizeText(peakOfChange(change))}`
            : "";
    }

    /** Says of the areas what they show. */
    nameAreas() {
        const { scene } = this;
        const what = scene.isFiltered
            ? `Allocated by ${scene.colorKey}, of what is shown`
            : `Allocated by ${scene.colorKey}; dashed: reserved${this.changeText()}${this.capacityText()}`;
        scene.runs.forEach((run, number) => {
            const name = scene.runs.length > 1 ? `${shortText(runName(run.info))}: ` : "";
            setText(byId(`area-title-${number}`), name ? `${name}${what[0].toLowerCase()}${what.slice(1)}` : what);
        });
    }

    /** Names the run of bars and map, if there are two, and offers the hidden rows of spans. */
    nameRun() {
        const { scene } = this;
        const run = scene.runs[scene.mapRun];
        const of = scene.runs.length > 1 ? ` of ${shortText(runName(run.info))}` : "";
        setText(byId("bars-title"), `Overview, steps, phases and spans${of}`);
        setText(byId("map-title"), `Addresses${of}: every block from its allocation to its free`);
        const depths = run.lanes.spans.length;
        byId("depths").hidden = depths <= FEW_DEPTHS;
        setText(byId("depths"), scene.allDepths ? "one row of spans" : `all ${depths} rows of spans`);
        byId("depths").setAttribute("aria-pressed", String(scene.allDepths));
    }

    draw() {
        const { scene } = this;
        const began = performance.now();
        const fitted = [scene.mapRun, scene.allDepths, scene.isWide];
        if (fitted.some((each, i) => each !== this.fitted[i])) this.fit();
        this.fitted = fitted;
        this.nameAreas();
        this.columns = this.plots.areas.map((plot, number) => drawArea(plot, scene, number));
        this.overlay.columns = this.columns;
        if (this.plots.difference) drawDifference(this.plots.difference, scene, this.columns[0], this.columns[1]);
        drawBars(this.plots.bars, scene);
        this.map.draw(scene);
        if (!scene.isWide) this.minimap.draw(scene);
        this.beforeOverlay();
        this.overlay.draw(scene);
        tellDuration("frame", performance.now() - began);
        for (const panel of this.panels) panel.update();
        this.tell();
    }

    /** Writes the state to attributes, for tests. */
    tell() {
        const { scene } = this;
        byId("axis").value = scene.axis.kind;
        byId("map-run").value = String(scene.mapRun);
        forgetCommand(scene);
        Object.assign(this.page.dataset, {
            axis: scene.axis.kind,
            from: scene.view.x0,
            to: scene.view.x1,
            length: scene.axis.length,
            low: scene.view.low,
            high: scene.view.high,
            selected: scene.selected,
            moments: scene.moments.join(","),
            frames: Number(this.page.dataset.frames ?? 0) + 1,
        });
    }
}
