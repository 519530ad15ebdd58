// What happens elsewhere does not change what is shown of one trace.

import { main } from "daycare";

document.addEventListener("daycare:event", (event) => {
  const { trace } = main.querySelector("[data-trace]")?.dataset ?? {};
  if (event.detail.kind !== "gap" && event.detail.event.trace !== trace) event.preventDefault();
});
