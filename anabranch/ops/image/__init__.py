"""Images: codecs, resizing, crops, colours, boxes."""
