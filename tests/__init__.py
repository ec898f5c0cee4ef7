"""What this fork promises."""
