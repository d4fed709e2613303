"""Names that layers had besides those of ``tf.layers``."""

from __future__ import annotations

import anabranch as tf

FullyConnected = tf.layers.Dense
fully_connected = tf.layers.dense
BatchNorm = tf.layers.BatchNormalization
batch_norm = tf.layers.batch_normalization
Convolution1D = tf.layers.Conv1D
Convolution2D = tf.layers.Conv2D
Convolution3D = tf.layers.Conv3D
SeparableConvolution1D = tf.layers.SeparableConv1D
SeparableConvolution2D = tf.layers.SeparableConv2D
Convolution2DTranspose = Deconvolution2D = Deconv2D = tf.layers.Conv2DTranspose
Convolution3DTranspose = Deconvolution3D = Deconv3D = tf.layers.Conv3DTranspose
convolution1d = tf.layers.conv1d
convolution2d = tf.layers.conv2d
convolution3d = tf.layers.conv3d
separable_convolution2d = tf.layers.separable_conv2d
convolution2d_transpose = deconvolution2d = deconv2d = tf.layers.conv2d_transpose
convolution3d_transpose = deconvolution3d = deconv3d = tf.layers.conv3d_transpose
MaxPool1D = tf.layers.MaxPooling1D
MaxPool2D = tf.layers.MaxPooling2D
MaxPool3D = tf.layers.MaxPooling3D
AvgPool1D = tf.layers.AveragePooling1D
AvgPool2D = tf.layers.AveragePooling2D
AvgPool3D = tf.layers.AveragePooling3D
