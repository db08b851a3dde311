// Switch between light and dark. What was chosen stays chosen in this browser; until then, the system decides.

const KEY = "milepost-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export function startTheme(button) {
  const show = () => {
    const chosen = localStorage.getItem(KEY);
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  };
  button.addEventListener("click", () => {
    localStorage.setItem(KEY, isDark() ? "light" : "dark");
    show();
  });
  system.addEventListener("change", show);
  show();
}

function isDark() {
  const chosen = localStorage.getItem(KEY);
  return chosen === "dark" || (chosen !== "light" && system.matches);
}
