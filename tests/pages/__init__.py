"""A campaign over the dashboard: what a browser makes of every page, and what everybody may do there."""
