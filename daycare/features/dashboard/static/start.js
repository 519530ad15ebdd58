// Of the first steps: the browser knows its time zone, where the machine says none.

for (const field of document.querySelectorAll("[data-zone]")) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (/^(Etc\/)?UTC$/.test(field.value) && zone && !field.readOnly) field.value = zone;
}
