"""Items that come and go: rules about what may be shown, slates, and what is known of new items."""
