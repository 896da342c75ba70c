/**
 * The call stack that asked for the selected block: the line of the program's own code first, then all frames, the innermost
 * first.
 *
 * @typedef {{function: string, file: string, line: number}} Frame   line 0: not known
 * @typedef {TableColumns & {of: NumberArray}} Stacks   of: by block its stack
 */
import { byId, make, setText, shortText } from "./dom.js";
import { plural } from "./numbers.js";

/**
 * Returns the frames of a block, the innermost first; none if they were not recorded.
 * @param {string[]} texts
 * @param {Stacks} stacks
 * @param {number} block
 */
export function framesOf(texts, stacks, block) {
    const { parent, function: names, file, line, of } = stacks;
    const frames = [];
    for (let at = of[block]; at > 0; at = parent[at] < at ? parent[at] : 0)
        frames.push({ function: texts[names[at]], file: texts[file[at]], line: line[at] });
    return frames;
}

const LIBRARIES = ["site-packages", "dist-packages", "lib/python3", "\\Lib\\", "<frozen"];

/**
 * True if a frame is of the program's own code, as src/trace/query/query_stacks.c decides it.
 * @param {Frame} frame
 */
function isOwn({ file }) {
    return file.endsWith(".py") && !file.startsWith("torch/") && !LIBRARIES.some((part) => file.includes(part));
}

/**
 * Returns the innermost frame of the program's own code, else the innermost with a line, else the innermost.
 * @param {Frame[]} frames
 */
export function ownFrame(frames) {
    return frames.find(isOwn) ?? frames.find(({ line }) => line > 0) ?? frames[0];
}

/**
 * Returns "train.py:42 in forward"; of a frame without a line its function.
 * @param {Frame} frame
 */
export function frameText(frame) {
    return frame.line > 0 ? `${frame.file}:${frame.line} in ${frame.function}` : frame.function;
}

/** @param {Frame[]} frames */
async function copyFrames(frames) {
    try {
        await navigator.clipboard.writeText(frames.map(frameText).join("\n"));
        setText(byId("said"), "Copied the call stack.");
    } catch {
        setText(byId("said"), "The call stack could not be copied: select its lines.");
    }
}

/**
 * Shows the stack of a block; nothing if it was not recorded.
 * @param {Scene} scene
 * @param {number} block
 */
export function showStack(scene, block) {
    const stacks = scene.stacks[scene.mapRun];
    const frames = stacks ? framesOf(scene.description.texts, stacks, block) : [];
    byId("stack").hidden = frames.length === 0;
    if (frames.length === 0) return;
    const own = ownFrame(frames);
    setText(byId("stack-line"), shortText(frameText(own)));
    setText(byId("stack-count"), `call stack, ${plural(frames.length, "frame")}`);
    byId("stack-frames").replaceChildren(
        ...frames.map((frame) => make("li", { class: isOwn(frame) ? "own" : undefined }, shortText(frameText(frame)))),
    );
    byId("copy-stack").onclick = () => copyFrames(frames);
}
