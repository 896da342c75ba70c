/** Making elements. Whatever comes from a trace passes through here as text; there is no way to pass markup. */

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

/** Sets the text of an element only when it changes, so that a reader of live regions is told once. */
export function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

const LONGEST_TEXT = 300;

/** A text from a trace, cut in the middle if it is endless; the whole of it stands in the title. */
export function shortText(text) {
    return text.length <= LONGEST_TEXT ? text : `${text.slice(0, 180)} … ${text.slice(-80)}`;
}
