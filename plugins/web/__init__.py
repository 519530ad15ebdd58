"""Reading the web: `[plugins.web]`. See doc/use/web.md."""
