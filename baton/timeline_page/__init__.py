"""The frame, the style and the script of the timeline's page; a person can edit them."""
