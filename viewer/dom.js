/**
 * Elements. All text of a trace passes through here as text; no function takes markup.
 *
 * @typedef {Record<string, string | boolean | undefined | EventListener>} Attributes   "class", "title", …; `on…` adds a
 *   listener
 */

/**
 * Returns an element of page.html, or one that the page has made.
 * @template {string} Id
 * @param {Id} id
 * @returns {Id extends keyof PageElements ? PageElements[Id] : HTMLElement}
 */
export function byId(id) {
    const element = /** @type {any} */ (document.getElementById(id));
    if (!element) throw new Error(`the page has no element ${id}`);
    return element;
}

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} attributes
 * @param {...(Node | string)} children strings become text
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") element.addEventListener(name.slice(2), value);
        else if (value === true) element.setAttribute(name, "");
        else if (value !== false && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
}

/**
 * Sets the text of an element only if it changes, so that screen readers announce it once.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

/**
 * Stores a duration in milliseconds on the page, for tests and benchmarks.
 * @param {string} what
 * @param {number} ms
 */
export function tellDuration(what, ms) {
    byId("page").dataset[`${what}Ms`] = ms.toFixed(3);
}

/**
 * Replaces the children of an element. If the keyboard is on one of them, it stays on the new one with the same data-key, or
 * else goes to the first button.
 * @param {HTMLElement} element
 * @param {(Node | string)[]} children
 */
export function refill(element, children) {
    const focused = document.activeElement;
    const key = focused instanceof HTMLElement && element.contains(focused) ? (focused.dataset.key ?? "") : null;
    element.replaceChildren(...children);
    if (key === null) return;
    const next = element.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? element.querySelector("button");
    if (next instanceof HTMLElement) next.focus();
}

/**
 * Returns a copy of the one element in a template.
 * @param {"rank-chart"} id
 */
export function copyOf(id) {
    return /** @type {Element} */ (document.importNode(byId(id).content, true).firstElementChild);
}

/**
 * Returns what draws on a canvas.
 * @param {HTMLCanvasElement} canvas
 */
export function contextOf(canvas) {
    const context = canvas.getContext("2d");
    if (!context) throw new Error("the browser draws no canvas");
    return context;
}

const LONGEST_TEXT = 300;

/**
 * Returns an element with a text of a trace. A very long text is cut in the middle; its title has all of it.
 * @param {string} text
 */
export function shortText(text) {
    return text.length <= LONGEST_TEXT ? text : `${text.slice(0, 180)} … ${text.slice(-80)}`;
}

/**
 * Returns a text with line breaks allowed after dots and opening brackets in names, and none inside of an option.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function breakableText(text) {
    return text
        .split(/(?<=\w[.(])(?<!\d\.(?=\d))(?=\S)|(?<=^| )(?=--\w)|(?<=(?:^| )--[\w-]+)(?= |$)/)
        .flatMap((part, i) => [
            ...(i === 0 || part[0] === " " || part[0] === "-" ? [] : [make("wbr")]),
            heldTogether(part),
        ]);
}

/** @param {string} part */
function heldTogether(part) {
    return part.startsWith("--") ? make("span", { class: "word" }, part) : part;
}

/**
 * Makes a line of code. It breaks between words, and within a word only if that is longer than a line.
 * @param {Attributes} attributes
 * @param {string} line
 */
export function makeCode(attributes, line) {
    const words = line.split(" ").map((word) => make("span", { class: "word" }, ...breakableText(word)));
    return make("code", attributes, ...words.flatMap((word, i) => (i === 0 ? [word] : [" ", word])));
}
