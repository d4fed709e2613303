"""Values: element types, shapes, constants, nested structures, lists."""
