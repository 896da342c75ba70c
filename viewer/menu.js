/** The menu of what is seldom needed. It closes once something was chosen, and with Escape. */
import { byId } from "./dom.js";

/** @param {boolean} isOpen */
function setMenu(isOpen) {
    byId("menu").hidden = !isOpen;
    byId("menu-button").setAttribute("aria-expanded", String(isOpen));
}

/** Opens and closes the menu with its button. */
export function listenToMenu() {
    const [menu, button] = [byId("menu"), byId("menu-button")];
    button.addEventListener("click", () => setMenu(menu.hidden));
    menu.addEventListener("click", ({ target }) => target instanceof HTMLButtonElement && setMenu(false));
    menu.addEventListener("change", () => setMenu(false));
    document.addEventListener("pointerdown", ({ target }) => {
        if (target instanceof Node && !menu.contains(target) && !button.contains(target)) setMenu(false);
    });
    menu.addEventListener("keydown", (event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        setMenu(false);
        button.focus();
    });
}
