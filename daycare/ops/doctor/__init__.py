"""`daycare doctor`: looks at the whole installation, mends what is safe to mend, and packs a bundle for bug reports."""
