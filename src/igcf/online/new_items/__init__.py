"""New items: evidence from all users, their posterior, and who tries them next."""
