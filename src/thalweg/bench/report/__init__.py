"""Reports of runs: Markdown tables, SVG plots, one self-contained HTML page."""
