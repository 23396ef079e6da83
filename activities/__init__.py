"""Effects: every touch of the outside world happens in an activity of this package."""
