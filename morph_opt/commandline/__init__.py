"""What all command lines share: a strict parser, and types of options with ranges."""
