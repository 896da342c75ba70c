/**
 * A block in words: "1.53 GiB fp32 [8192, 50257] · log_softmax · gpt2.py:7". What the trace does not know of it is unknown.
 */
import { sizeText } from "./numbers.js";
import { framesOf, ownFrame } from "./stack.js";

const UNKNOWN = "unknown";
const NO_DTYPE = "none";

/**
 * Returns "fp32 [8192, 50257]" of a label; "" if it has neither dtype nor shape.
 * @param {Description} description
 * @param {TableColumns} labels
 * @param {number} label
 */
export function tensorText({ texts }, labels, label) {
    const [dtype, shape] = [texts[labels.dtype[label]], texts[labels.shape[label]]];
    if ((dtype === "" || dtype === NO_DTYPE) && shape === "") return "";
    return `${dtype} [${shape.replaceAll(",", ", ")}]`;
}

/**
 * Returns the op of a label; of one without, its role.
 * @param {Description} description
 * @param {TableColumns} labels
 * @param {number} label
 */
export function opOrRoleText({ texts }, labels, label) {
    return texts[labels.op[label]] || texts[labels.role[label]] || UNKNOWN;
}

/**
 * Returns what a block of a label is: its op without the name of its library; of the state of an optimizer, its parameter as
 * well; "unknown" if the trace has none of it.
 * @param {Description} description
 * @param {TableColumns} labels
 * @param {number} label
 */
export function opText({ texts }, labels, label) {
    const op = texts[labels.op[label]].replace(/^aten::_*/, "");
    if (texts[labels.role[label]] !== "optimizer state") return op || UNKNOWN;
    const path = texts[labels.span[label]];
    const parameter = path.endsWith(`.${op}`) ? path.slice(0, -op.length - 1) : path;
    return `${op || "state"} of ${parameter || "an unknown parameter"}`;
}

/**
 * Returns the line of the program that asked for a block: "gpt2.py:7"; "" if it was not recorded.
 * @param {Scene} scene
 * @param {number} block   of the map's run
 */
function lineText(scene, block) {
    const stacks = scene.stacks[scene.mapRun];
    const frames = stacks ? framesOf(scene.description.texts, stacks, block) : [];
    if (frames.length === 0 || ownFrame(frames).line === 0) return "";
    const { file, line } = ownFrame(frames);
    return `${file.slice(file.lastIndexOf("/") + 1)}:${line}`;
}

/**
 * Returns the size, tensor, op and line of a block.
 * @param {Scene} scene
 * @param {number} block   of the map's run
 */
export function tensorOpLineText(scene, block) {
    const { labels, blocks, sizes } = scene.runs[scene.mapRun];
    const label = blocks.label[block];
    const size = sizeText(sizes.block[blocks.size[block]]);
    const words = [
        `${size} ${tensorText(scene.description, labels, label)}`.trim(),
        opText(scene.description, labels, label),
        lineText(scene, block),
    ];
    return words.filter((text) => text).join(" · ");
}
