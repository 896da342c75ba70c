/**
 * The page: reads its data in a worker, and connects the parts that show it with the parts that change the view.
 *
 * Attributes `data-…` of #page hold its state and timings, for tests and benchmarks.
 *
 * @typedef {Object} Message   of the worker, with what its kind has
 * @property {Description} description
 * @property {number} number   of the run
 * @property {Run} run
 * @property {Partial<Run>} memory
 * @property {Float64Array} time
 * @property {?TableColumns} uses
 * @property {?Stacks} stacks
 * @property {string} text   of an error
 */
import { showAnswer } from "./answer.js";
import { takeJson } from "./answers.js";
import { AXIS_KINDS, clockName } from "./axis.js";
import { readTheme } from "./colors.js";
import { copyCommand } from "./copy_command.js";
import { byId, make, setText, shortText, tellDuration } from "./dom.js";
import { applyHash } from "./hash.js";
import { listenToKeys, toggleLayers } from "./keys.js";
import { prepareMap } from "./map.js";
import { listenToMenu } from "./menu.js";
import { makePlots, Painter } from "./painter.js";
import { goToPeak } from "./peak.js";
import { Pointer } from "./pointer.js";
import { rankOfHash, showRanks } from "./ranks.js";
import { FORMATS, saveAs } from "./save.js";
import { Scene } from "./scene.js";
import { printInLight, setTheme, toggleTheme } from "./theme.js";
import { timesBetween } from "./times.js";
import { runName } from "./where.js";

const page = byId("page");

const TOLD_SETTINGS = ["model", "batch", "seq", "mode", "autocast"];

/** @param {Scene} scene */
function showRuns(scene) {
    const names = scene.runs.map((run) => runName(run.info));
    setText(byId("run-title"), shortText(names.join(" and ")));
    document.title = `${shortText(names.join(" and "))} · memtrace`;
    setText(
        byId("run-facts"),
        shortText(
            scene.runs
                .map(({ info }) =>
                    [
                        ...TOLD_SETTINGS.flatMap((name) => info.settings.filter(([each]) => each === name)).map(
                            ([name, value]) => `${name} ${value}`,
                        ),
                        info.device,
                        info.state,
                    ].join(" · "),
                )
                .join("  |  "),
        ),
    );
    byId("axis").options[0].text = clockName(scene.runs[0].info);
    page.classList.toggle("two-runs", scene.runs.length > 1);
    byId("map-run-label").hidden = byId("bars-title").hidden = scene.runs.length < 2;
    byId("map-run").replaceChildren(...names.map((name, i) => make("option", { value: String(i) }, shortText(name))));
}

/**
 * @param {Scene} scene
 * @param {Painter} painter
 */
function listen(scene, painter) {
    const [axis, mapRun, save] = [byId("axis"), byId("map-run"), byId("save")];
    axis.addEventListener("change", () => scene.setAxis(AXIS_KINDS[axis.selectedIndex]));
    mapRun.addEventListener("change", () => scene.setMapRun(mapRun.selectedIndex));
    byId("depths").addEventListener("click", () => scene.set({ allDepths: !scene.allDepths }));
    byId("each-layer").addEventListener("click", () => toggleLayers(scene));
    byId("leave-module").addEventListener("click", () => scene.set({ within: "" }));
    byId("to-peak").addEventListener("click", () => goToPeak(scene));
    listenToMenu();
    byId("copy").addEventListener("click", () => copyCommand(scene));
    byId("close-command").addEventListener("click", () => (byId("command").hidden = true));
    save.append(...FORMATS.map((format) => make("option", {}, format)));
    save.addEventListener("change", () => {
        if (FORMATS.includes(save.value)) saveAs(scene, painter.columns, save.value);
        save.value = "";
    });
    byId("theme").addEventListener("click", () => toggleTheme(scene));
    byId("help").addEventListener("click", () => byId("keys").showModal());
    listenToKeys(scene);
    const pointer = new Pointer(scene, byId("charts"), painter);
    painter.beforeOverlay = () => pointer.rehover();
    new ResizeObserver(() => painter.resized()).observe(byId("charts"));
    watchPixels(painter);
    printInLight(scene, painter);
}

/**
 * Draws again if the window moves to a screen with another resolution.
 * @param {Painter} painter
 */
function watchPixels(painter) {
    const query = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
    const changed = () => {
        painter.refit();
        watchPixels(painter);
    };
    query.addEventListener("change", changed, { once: true });
}

/**
 * Runs a function once the page is idle; several of them one after the other.
 * @param {() => void} body
 */
function whenIdle(body) {
    (window.requestIdleCallback ?? window.setTimeout)(body);
}

/**
 * Makes a scene that is not drawn yet.
 * @param {Reader} reader
 */
function makeScene({ description, runs, rank }) {
    const scene = new Scene(known(description), runs, readTheme(document.documentElement));
    scene.rank = rank;
    return scene;
}

/**
 * Draws a scene, now and after each change.
 * @param {Scene} scene
 */
function show(scene) {
    const plots = makePlots(scene);
    showRuns(scene);
    showAnswer(byId("answer"), scene);
    const painter = new Painter(scene, plots);
    scene.onChange = () => painter.later();
    scene.onHover = () => painter.followPointer();
    painter.draw();
    listen(scene, painter);
    page.dataset.state = "ready";
    tellDuration("first", performance.now());
}

/**
 * True if the view needs no exact times: it covers the whole axis, and nothing is selected.
 * @param {Scene} scene
 */
function isOverview(scene) {
    return scene.isWide && scene.selected < 0 && !scene.bar;
}

/**
 * Returns what an earlier message of the worker has brought.
 * @template T
 * @param {?T} value
 */
function known(value) {
    if (value === null) throw new Error("the messages of the worker are out of order");
    return value;
}

/** Collects the messages of the worker, and makes the scene as soon as it can. */
class Reader {
    constructor() {
        /** @type {?Description} */
        this.description = null;
        /** @type {Run[]} */
        this.runs = [];
        /** @type {?Scene} */
        this.scene = null;
        this.isShown = false;
        this.rank = rankOfHash(location.hash);
    }

    /** Has the page show what it opens with, since it lacks the rank of its address. */
    leaveRank() {
        this.rank = "";
        history.replaceState(null, "", "#");
    }

    show() {
        if (!this.isShown) show(known(this.scene));
        this.isShown = true;
    }

    /** @param {{description: Description}} message */
    takeDescription({ description }) {
        this.description = description;
    }

    /**
     * With one run, makes the map while the worker goes on. The axis of two runs needs both.
     * @param {{number: number, run: Run}} message
     */
    takeRun({ number, run }) {
        const { description, runs } = this;
        runs[number] = Object.assign(run, { time: timesBetween(run.knots, run.info) });
        if (known(description).runs.length > 1) return;
        this.scene = makeScene(this);
        prepareMap(this.scene, byId("map"));
    }

    /** @param {{number: number, memory: Partial<Run>}} message */
    takeMemory({ number, memory }) {
        const count = known(this.description).runs.length;
        Object.assign(this.runs[number], memory);
        setText(byId("progress"), `Read run ${number + 1} of ${count} …`);
        if (number + 1 < count) return;
        this.scene ??= makeScene(this);
        applyHash(this.scene, location.hash);
        if (isOverview(this.scene)) this.show();
    }

    /**
     * Draws the picture again once all runs have their times.
     * @param {{number: number, time: Float64Array}} message
     */
    takeTime({ number, time }) {
        const scene = known(this.scene);
        scene.setTime(number, time);
        if (!scene.timed) return;
        this.show();
        whenIdle(() => scene.levels(scene.mapRun));
        whenIdle(() => scene.onChange());
    }

    /** Has the scene show the answers, which are about the run that the page opens with. */
    async takeAnswers() {
        if (this.rank !== "") return;
        const scene = known(this.scene);
        scene.setAnswers(await takeJson("answers-chunk-0"));
        showAnswer(byId("answer"), scene);
    }

    /** @param {{number: number, uses: ?TableColumns}} message */
    takeUses({ number, uses }) {
        known(this.scene).setUses(number, uses);
    }

    /** @param {{number: number, stacks: ?Stacks}} message */
    takeStacks({ number, stacks }) {
        known(this.scene).setStacks(number, stacks);
    }
}

/** @param {string} text */
function fail(text) {
    page.dataset.state = "failed";
    byId("answer").replaceChildren(make("p", { class: "alarm", role: "alert" }, `This page can't be shown: ${text}`));
}

/**
 * Sends the chunks of a rank to the worker while the document is still loading, and removes them, to save memory. A chunk is
 * complete once another node comes after it. A message without text follows the last one. If the page lacks the rank, sends
 * those that it opens with.
 * @param {Worker} worker
 * @param {Reader} reader
 */
function sendChunks(worker, reader) {
    let next = 0;
    const chunkNow = () => document.getElementById(`${reader.rank === "" ? "" : `rank${reader.rank}-`}chunk-${next}`);
    const isRead = () => document.readyState !== "loading";
    const sendWhole = () => {
        for (let chunk; (chunk = chunkNow()) && (chunk.nextSibling || isRead()); next++) {
            worker.postMessage({ number: next, text: chunk.textContent });
            chunk.remove();
        }
    };
    const observer = new MutationObserver(sendWhole);
    const end = () => {
        observer.disconnect();
        if (next === 0 && !chunkNow()) reader.leaveRank();
        sendWhole();
        worker.postMessage({ number: next, text: null });
        whenIdle(() => showRanks(reader.rank));
    };
    observer.observe(document.body, { childList: true });
    if (isRead()) end();
    else document.addEventListener("DOMContentLoaded", end, { once: true });
}

function start() {
    setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const { worker, workerSource } = window.memtrace;
    const reader = new Reader();
    const end = () => {
        worker.terminate();
        URL.revokeObjectURL(workerSource);
        whenIdle(async () => {
            if (page.dataset.state === "ready") await reader.takeAnswers();
            page.dataset.complete = "true";
        });
    };
    /** @type {Record<string, (data: Message) => void>} */
    const takes = {
        description: (data) => reader.takeDescription(data),
        run: (data) => reader.takeRun(data),
        memory: (data) => reader.takeMemory(data),
        time: (data) => reader.takeTime(data),
        uses: (data) => reader.takeUses(data),
        stacks: (data) => reader.takeStacks(data),
        error: ({ text }) => (fail(text), end()),
        end,
    };
    worker.onerror = (event) => fail(event.message ?? "its worker did not start");
    worker.onmessage = ({ data }) => takes[data.kind](data);
    sendChunks(worker, reader);
}

start();
