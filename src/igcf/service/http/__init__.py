"""HTTP: the application, its routes, who may call them, and what requests and answers look like."""
