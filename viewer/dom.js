/** Elements. All text of a trace passes through here as text; no function takes markup. */

export const byId = (id) => document.getElementById(id);

/**
 * @param {string} tag
 * @param {Object<string, string | boolean | Function>} attributes "class", "title", …; `on…` adds a listener
 * @param {...(Node | string)} children strings become text
 */
export function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else if (value === true) element.setAttribute(name, "");
        else if (value !== false && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
}

/** Sets the text of an element only if it changes, so that screen readers announce it once. */
export function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

/** Stores a duration in milliseconds on the page, for tests and benchmarks. */
export function tellDuration(what, ms) {
    byId("page").dataset[`${what}Ms`] = ms.toFixed(3);
}

/**
 * Replaces the children of an element. If the keyboard is on one of them, it stays on the new one with the same data-key.
 * @param {HTMLElement} element
 * @param {(Node | string)[]} children
 */
export function refill(element, children) {
    const focused = document.activeElement;
    const key = element.contains(focused) ? focused.dataset.key : undefined;
    element.replaceChildren(...children);
    if (key !== undefined) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

const LONGEST_TEXT = 300;

/** Returns an element with a text of a trace. A very long text is cut in the middle; its title has all of it. */
export function shortText(text) {
    return text.length <= LONGEST_TEXT ? text : `${text.slice(0, 180)} … ${text.slice(-80)}`;
}
