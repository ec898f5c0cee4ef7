"""Who is acting, and where their memory is."""
