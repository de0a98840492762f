# SPDX-License-Identifier: Apache-2.0
# cluster: local1     image kernels: codecs, resize, colour, flips, boxes
# tol: 1e-3
from _common import *
v1()
im = tf.constant((np.arange(4 * 5 * 3) * 4 % 256).reshape(4, 5, 3).astype(np.uint8)); f = tf.image.convert_image_dtype(im, tf.float32)
R = dict(png=tf.image.decode_png(tf.image.encode_png(im)), jpg=tf.shape(tf.image.decode_jpeg(tf.image.encode_jpeg(im, quality=95))), bmp=tf.shape(tf.image.decode_image(tf.image.encode_png(im))), conv=f[0, 0], bil=tf.image.resize_images(f, [3, 3])[1], nn=tf.image.resize_nearest_neighbor(f[None], [2, 2]), cub=tf.image.resize_bicubic(f[None], [3, 3])[0, 1], area=tf.image.resize_area(f[None], [2, 2]), flip=tf.image.flip_left_right(im)[0], ud=tf.image.flip_up_down(im)[0], rot=tf.image.rot90(im)[0], gray=tf.image.rgb_to_grayscale(f)[0], hsv=tf.image.rgb_to_hsv(f)[1], rgb=tf.image.hsv_to_rgb(tf.image.rgb_to_hsv(f))[1], bright=tf.image.adjust_brightness(f, .1)[0, 0], contrast=tf.image.adjust_contrast(f, 2.)[0, 0], hue=tf.image.adjust_hue(f, .2)[1], sat=tf.image.adjust_saturation(f, .5)[1], std=tf.image.per_image_standardization(f)[0, 0], crop=tf.image.central_crop(im, .5), pad=tf.shape(tf.image.pad_to_bounding_box(im, 1, 1, 8, 8)), cop=tf.shape(tf.image.resize_image_with_crop_or_pad(im, 3, 9)), draw=tf.image.draw_bounding_boxes(f[None], [[[.1, .1, .9, .9]]])[0, 0, :2], psnr=tf.image.psnr(f, f * .9, 1.), tv=tf.image.total_variation(f), glimpse=tf.shape(tf.image.extract_glimpse(f[None], [2, 2], [[0., 0.]])))
with tf.Session(TARGET) as s: emit(**s.run(R))
