"""The web page: a person's door to what the server can do.

The page itself is plain HTML, CSS and ES modules; `views` says what a finished job shows, `charts`
draws it, and `rendering` turns both into HTML, for the page and for reports to keep.
"""
